// The case in numbers: truth, mismatch, effective sample sizes, and one run of every estimator.

import {oneRun} from "../../js/estimates.mjs"
import {TARGETS, truth} from "../../js/targets.mjs"
import {byId, element, number, relative, swatch} from "./text.mjs"

const DRAWS = [16, 64, 256, 1024]
const LOG_TENTH = Math.log(0.1)

const tile = (name, figure, words) => element("div", {class: "tile"},
    element("div", {class: "name"}, name), element("div", {class: "figure"}, figure),
    element("div", {class: "words"}, words))

/** What a share of the posterior is, in words. */
function odds(logShare, where) {
    if (logShare > LOG_TENTH) {
        return `${number(100 * Math.exp(logShare))} % of the posterior lies ${where}`
    }
    const oneIn = Math.exp(-logShare), rough = Number(oneIn.toPrecision(2))
    const many = oneIn < 1e6 ? rough.toLocaleString("en") : number(oneIn, 2)
    return `1 posterior draw in ${many} lies ${where}`
}

function aboutLevel(level) {
    const words = ["is close to", "differs moderately from", "lies at the edge of",
        "lies far in the tail of"]
    return `g ${words[[0.1, 2, 6].filter(end => level >= end).length]} the posterior`
}

export class Strip {
    constructor(state, changed) {
        this.state = state
        this.seed = 0
        byId("draws").append(...DRAWS.map(n => element("option", {value: n}, String(n))))
        byId("draws").value = "64"
        byId("draws").addEventListener("change", changed)
        byId("again").addEventListener("click", () => {
            this.seed++
            changed()
        })
        this.tiles = []
    }

    /** Shows what is known without a draw. */
    show(level) {
        const {name, y, theta, problem} = this.state, target = TARGETS[name]
        const about = problem.truth || odds(target.logParts(y, theta)[0], problem.where)
        byId("tiles").replaceChildren(
            tile("Truth μ", number(truth(target, y, theta), 4), about),
            tile("Mismatch", `${number(level)} nats`, aboutLevel(level)),
            ...this.tiles)
    }

    /** Runs every estimator once. */
    run(weights, level) {
        const {name, y, theta, problem} = this.state, draws = Number(byId("draws").value)
        const mu = truth(TARGETS[name], y, theta)
        const found =
            oneRun(TARGETS[name], weights, y, theta, problem.estimators, draws, this.seed)
        this.tiles = Object.entries(found.effective).map(([proposal, effective]) => tile(
            `Effective sample size, ${problem.proposals[proposal]} (of ${draws})`,
            number(effective),
            effective == 0 ? "all weights are zero" : `worth ${number(effective)} ideal draws`))
        this.show(level)
        const head = ["estimator", "estimate", "relative error"]
            .map(text => element("th", {scope: "col"}, text))
        const rows = problem.estimators.map(({name: way}) => {
            const {label, dash} = this.state.facts.styles[way], value = found.values[way]
            return element("tr", {"data-estimator": way},
                element("td", {}, swatch(way, dash), label),
                element("td", {}, number(value, 4)), element("td", {}, relative(value / mu - 1)))
        })
        byId("estimates").replaceChildren(element("table", {},
            element("caption", {}, `One run, ${found.total.toLocaleString("en")} total draws`),
            element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)))
    }
}

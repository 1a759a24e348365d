// The case in numbers: truth, mismatch, effective sample sizes, and one run of every estimator.

import {oneRun} from "../../js/estimates.mjs"
import {TARGETS, truth} from "../../js/targets.mjs"
import {byId, element, number, relative} from "./text.mjs"

const DRAWS = [16, 64, 256, 1024]
const LOG_TENTH = Math.log(0.1)

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

export class Numbers {
    constructor(state, changed) {
        Object.assign(this, {state, seed: 0, run: null})
        byId("draws").append(...DRAWS.map(n => element("option", {value: n}, String(n))))
        byId("draws").value = "64"
        byId("draws").addEventListener("change", changed)
        byId("again").addEventListener("click", () => {
            this.seed++
            changed()
        })
    }

    /** Shows what is known without a draw. */
    show(level) {
        const {name, y, theta, problem} = this.state, target = TARGETS[name]
        const about = problem.truth || odds(target.logParts(y, theta)[0], problem.where)
        const tiles = [
            ["Truth μ", number(truth(target, y, theta), 4), about],
            ["Mismatch", `${number(level)} nats`, aboutLevel(level)],
            ...Object.entries(this.run?.effective ?? {}).map(([proposal, effective]) => [
                `Effective sample size, ${problem.proposals[proposal]} (of ${this.run.draws})`,
                number(effective),
                effective == 0 ? "all weights are zero" : `worth ${number(effective)} ideal draws`,
            ]),
        ]
        byId("tiles").replaceChildren(...tiles.map(texts => element("div", {class: "tile"},
            ...["name", "figure", "words"].map((part, i) =>
                element("div", {class: part}, texts[i])))))
    }

    /** Runs every estimator once. */
    estimate(weights, level) {
        const {name, y, theta, problem, facts} = this.state, draws = Number(byId("draws").value)
        const mu = truth(TARGETS[name], y, theta)
        const found =
            oneRun(TARGETS[name], weights, y, theta, problem.estimators, draws, this.seed)
        this.run = {...found, draws}
        this.show(level)
        const rows = problem.estimators.map(({name: way}) => {
            const value = found.values[way], dot = element("i", {style: `color: var(--${way})`}, "■ ")
            return element("tr", {"data-estimator": way},
                element("td", {}, dot, facts.labels[way]), element("td", {}, number(value, 4)),
                element("td", {}, relative(value / mu - 1)))
        })
        byId("rows").replaceChildren(...rows)
        byId("total").textContent = `One run, ${found.total.toLocaleString("en")} total draws`
    }
}

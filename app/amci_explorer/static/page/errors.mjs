// Error curves: the error of every estimator against total draws, from a worker.

import {TARGETS, truth} from "../../js/targets.mjs"
import {Picture, describe} from "./pictures.mjs"
import {byId, number} from "./text.mjs"

const SEED = 1
// As `amci_explorer.plots`: what is drawn at the edge, in per cent, and the height of a label.
const FLOOR = 1e-7, CEILING = 3162, LABEL = 15, BELOW = 58
const percent = square => Math.max(100 * Math.sqrt(square), FLOOR)

/** Heights of labels, in pixels from below: no two overlap. */
function apart(heights, top) {
    const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b])
    const found = [...heights]
    for (const [rank, i] of order.entries()) {
        const below = rank == 0 ? LABEL / 2 : found[order[rank - 1]] + LABEL
        found[i] = Math.max(found[i], below)
    }
    for (let rank = order.length - 1, above = top; rank >= 0; rank--) {
        found[order[rank]] = Math.min(found[order[rank]], above - LABEL / 2)
        above = found[order[rank]] - LABEL / 2
    }
    return found
}

export class Errors {
    constructor(state) {
        this.state = state
        this.picture = new Picture(byId("errors-picture"))
        const code = byId("worker").textContent
        this.code = URL.createObjectURL(new Blob([code], {type: "text/javascript"}))
    }

    /** Shows the picture of the state's problem, where it opens. */
    async open() { this.page = await this.picture.show(this.state.problem.errors) }

    /** Ends what is under way: what is shown answers another case. */
    stop() {
        this.worker?.terminate()
        byId("errors-picture").classList.add("stale")
    }

    /** Begins anew for the state's case. */
    start() {
        this.stop()
        const {name, y, theta, problem, facts: {budgets, runs}} = this.state
        const began = performance.now()
        byId("errors-status").textContent = `0 of ${runs} runs`
        this.worker = new Worker(this.code)
        this.worker.onmessage = ({data}) => {
            const ended = data.runs == runs
            const seconds = ((performance.now() - began) / 1000).toFixed(1)
            byId("errors-picture").classList.remove("stale")
            byId("errors-status").textContent =
                ended ? `${runs} runs, in ${seconds} s.` : `${data.runs} of ${runs} runs`
            this.draw(data.curves, {name, y: [...y], theta: [...theta]}, ended)
        }
        this.worker.onerror = ({message}) => {
            byId("errors-status").textContent = `No error curves: ${message}`
        }
        this.worker.postMessage({
            weights: problem.weights, name, y, theta,
            plan: {estimators: problem.estimators, budgets, runs, seed: SEED},
        })
    }

    /** Fills the picture as `amci_explorer.plots.error_curves` does. */
    draw(curves, {name, y, theta}, ended) {
        const {budgets, labels} = this.state.facts, target = TARGETS[name]
        const mu = truth(target, y, theta), dev = target.deviation(y, theta) / (mu || 1)
        const bound = budgets.map(total => {
            const mean = dev ** 2 / total
            return {mean, low: mean, median: mean, high: mean, determined: false}
        })
        const [figure] = this.page.roots()[0].children, firm = [], ends = []
        for (const [way, points] of Object.entries({...curves, bound})) {
            const line = figure.renderers.find(each => each.name == labels[way])
            const column = key => points.map(point => percent(point[key]))
            const error = column("mean"), color = line.glyph.line_color.value
            line.data_source.data = {draws: budgets, error, low: column("low"),
                median: column("median"), high: column("high")}
            for (let i = 0; i + 1 < budgets.length; i++) {
                if (points[i].determined && points[i + 1].determined) {
                    firm.push({draws: budgets[i], error: error[i], to_draws: budgets[i + 1],
                        to_error: error[i + 1], color})
                }
            }
            ends.push({way, error, text: labels[way], text_color: color})
        }
        const every = ends.flatMap(({error}) => error)
        const low = 10 ** Math.floor(Math.log10(Math.min(...every))) / 1.3
        const top = Math.ceil(Math.log10(Math.min(Math.max(...every), CEILING)))
        const high = 10 ** Math.max(top, Math.log10(low * 1.3) + 1) * 1.3
        figure.y_range.setv({start: low, end: high, reset_start: low, reset_end: high})
        const scale = (figure.height - BELOW) / Math.log(high / low)
        const named = ends.map(end => ({...end, last: end.error[budgets.length - 1]}))
            .filter(({last}) => last <= high)
        const places = apart(named.map(({last}) => scale * Math.log(last / low)), figure.height - BELOW)
        fill(figure, "Segment", firm)
        fill(figure, "Text", named.map(({text, text_color}, i) => ({
            x: budgets[budgets.length - 1], y: low * Math.exp(places[i] / scale), text, text_color,
        })))
        if (!ended) { return }
        const said = ends.map(({text, error}) => `${text} ${number(error[error.length - 1], 2)} %`)
        describe(this.page, `Error at ${budgets[budgets.length - 1]} total draws, relative to μ: `
            + `${said.join(", ")}.`)
        if (mu == 0) { byId("errors-status").textContent += " μ is 0: errors are in per cent of 1." }
    }
}

/** Fills the source of the only glyph of that type with rows. */
function fill(figure, type, rows) {
    const {data_source: source} = figure.renderers.find(each => each.glyph.type == type)
    source.data = Object.fromEntries(
        Object.keys(source.data).map(name => [name, rows.map(row => row[name])]))
}

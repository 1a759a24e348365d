// Error curves: the error of every estimator against total draws, from a worker.

import {TARGETS, truth} from "../../js/targets.mjs"
import {Picture, describe} from "./pictures.mjs"
import {byId, number} from "./text.mjs"

const SEED = 1
// As `amci_explorer.plots`: what is drawn at the edge, in per cent, and the height of a label.
const FLOOR = 1e-7, CEILING = 3162, LABEL = 15, BELOW = 58
const percent = square => Math.max(100 * Math.sqrt(square), FLOOR)

/** Heights of labels, in pixels from below, each pushed up by the one below it. */
function apart(heights) {
    const found = [...heights]
    let least = LABEL / 2
    for (const i of [...heights.keys()].sort((a, b) => heights[a] - heights[b])) {
        found[i] = Math.max(found[i], least)
        least = found[i] + LABEL
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
        const {budgets: draws, labels} = this.state.facts, target = TARGETS[name], firm = []
        const mu = truth(target, y, theta), deviation = target.deviation(y, theta) / (mu || 1)
        const bound = draws.map(total => ({mean: deviation ** 2 / total}))
        const [figure] = this.page.roots()[0].children
        const named = Object.entries({...curves, bound}).map(([way, points]) => {
            const line = figure.renderers.find(each => each.name == labels[way])
            const column = key => points.map(point => percent(point[key] ?? point.mean))
            const error = column("mean"), color = line.glyph.line_color.value
            const [low, median, high] = ["low", "median", "high"].map(column)
            line.data_source.data = {draws, error, low, median, high}
            points.slice(1).forEach((point, i) => {
                if (point.determined && points[i].determined) {
                    firm.push({draws: draws[i], error: error[i], to_draws: draws[i + 1],
                        to_error: error[i + 1], color})
                }
            })
            return {x: draws.at(-1), text: labels[way], text_color: color, error, end: error.at(-1)}
        })
        const every = named.flatMap(({error}) => error)
        const [low, top] = [Math.min(...every), Math.min(Math.max(...every), CEILING)].map(Math.log10)
        const start = 10 ** Math.floor(low) / 1.3
        const end = 10 ** Math.max(Math.ceil(top), Math.floor(low) + 1) * 1.3
        figure.y_range.setv({start, end, reset_start: start, reset_end: end})
        const scale = (figure.height - BELOW) / Math.log(end / start)
        const inside = named.filter(each => each.end <= end)
        const heights = apart(inside.map(each => scale * Math.log(each.end / start)))
        fill(figure, "Segment", firm)
        fill(figure, "Text", inside.map((each, i) =>
            ({...each, y: start * Math.exp(heights[i] / scale)})))
        if (ended) {
            const said = named.map(({text, end}) => `${text} ${number(end, 2)} %`).join(", ")
            describe(this.page, `Error at ${draws.at(-1)} total draws, relative to μ: ${said}.`)
            if (mu == 0) { byId("errors-status").textContent += " μ is 0: errors are in per cent of 1." }
        }
    }
}

/** Fills the source of the only glyph of that type with rows. */
function fill(figure, type, rows) {
    const {glyph, data_source: source} = figure.renderers.find(each => each.glyph.type == type)
    // HoloViews maps the colours of an empty source as numbers.
    if (type == "Segment") { glyph.line_color = {field: "color"} }
    source.data = Object.fromEntries(
        Object.keys(source.data).map(name => [name, rows.map(row => row[name])]))
}

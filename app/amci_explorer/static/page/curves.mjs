// Error curves: the median squared error of every estimator against total draws, from a worker.

import {TARGETS, truth} from "../../js/targets.mjs"
import {Chart} from "./chart.mjs"
import {byId, number} from "./text.mjs"

const BUDGETS = [10, 30, 100, 300, 1000], RUNS = 200
const FLOOR = 1e-18, CEILING = 1e3
const SEED = 1
const RELATIVE = "squared error / μ²"

export class ErrorCurves {
    constructor(state) {
        this.state = state
        this.chart = new Chart(byId("errors-picture"), {
            label: "Error against draws", xLabel: "total draws T", yLabel: RELATIVE,
            height: 340, log: ["x", "y"],
        })
        this.chart.range([BUDGETS[0] / 1.15, BUDGETS[BUDGETS.length - 1] * 1.15], [1e-8, 10])
        this.chart.resized = () => this.draw()
        const code = byId("worker").textContent
        this.code = URL.createObjectURL(new Blob([code], {type: "text/javascript"}))
        this.paths = {}
    }

    /** Ends what is under way: what is shown answers another case. */
    stop() {
        this.worker?.terminate()
        this.worker = null
        byId("errors-picture").classList.toggle("stale", this.found != null)
    }

    /** Begins anew for the state's case. */
    start() {
        this.stop()
        const {name, y, theta, problem} = this.state, began = performance.now()
        byId("errors-progress").value = 0
        byId("errors-progress").hidden = false
        byId("errors-status").textContent = `0 of ${RUNS} runs`
        this.worker = new Worker(this.code)
        this.worker.onmessage = ({data}) => {
            byId("errors-picture").classList.remove("stale")
            this.found = {...data, name, y: [...y], theta: [...theta]}
            this.draw()
            const seconds = ((performance.now() - began) / 1000).toFixed(1)
            const ended = data.runs == RUNS
            byId("errors-progress").value = data.runs / RUNS
            byId("errors-progress").hidden = ended
            byId("errors-status").textContent = ended
                ? `Medians and quartiles of ${RUNS} runs, in ${seconds} s. ${this.outside()}`
                : `${data.runs} of ${RUNS} runs`
            if (ended) { this.describe() }
        }
        this.worker.onerror = ({message}) => {
            byId("errors-status").textContent = `No error curves: ${message}`
        }
        this.worker.postMessage({
            weights: problem.weights, name, y, theta,
            plan: {estimators: problem.estimators, budgets: BUDGETS, runs: RUNS, seed: SEED},
        })
    }

    draw() {
        if (this.found == null) { return }
        const {name, y, theta, quartiles} = this.found, target = TARGETS[name]
        const mu = truth(target, y, theta), unit = mu || 1
        const dev = target.deviation(y, theta) / unit
        const within = v => Math.min(Math.max(v, FLOOR), CEILING)
        const bound = BUDGETS.map(total => within(dev ** 2 / total))
        const medians = Object.values(quartiles).flatMap(([, median]) => median.map(within))
        const all = [...medians, ...bound]
        const ends = [Math.min(...all) / 3, Math.max(...all) * 3]
        this.chart.rename(mu == 0 ? "squared error" : RELATIVE)
        this.chart.range(this.chart.ends.x, ends.map((v, i) =>
            10 ** (i == 0 ? Math.floor : Math.ceil)(Math.log10(v))))
        for (const group of Object.values(this.paths)) { group.setAttribute("d", "") }
        for (const [way, rows] of Object.entries(quartiles)) {
            const [low, median, high] = rows.map(row => row.map(within))
            this.path(`${way}-band`, {fill: `var(--${way})`, "fill-opacity": 0.13})
                .setAttribute("d", this.chart.area(BUDGETS, high, low))
            this.line(way).setAttribute("d", this.chart.path(BUDGETS, median))
        }
        this.line("bound").setAttribute("d", this.chart.path(BUDGETS, bound))
    }

    line(way) {
        return this.path(way, {
            stroke: `var(--${way})`, "stroke-width": 2.5, "data-line": way,
            "stroke-dasharray": this.state.facts.styles[way].dash.join(" "),
        })
    }

    path(name, attributes) { return this.paths[name] ??= this.chart.add("path", attributes) }

    /** What the picture cannot show, in words. */
    outside() {
        const above = Object.entries(this.found.quartiles).filter(([, [, median]]) =>
            Math.min(...median) > CEILING)
        return above.map(([way, [, median]]) => `${this.state.facts.styles[way].label} is off the `
            + `scale (${number(median[median.length - 1], 2)}).`).join(" ")
    }

    /** Says in words what is drawn. */
    describe() {
        const {styles} = this.state.facts, last = BUDGETS.length - 1
        const ends = Object.entries(this.found.quartiles).map(([way, [, median]]) =>
            `${styles[way].label} ${number(median[last], 2)}`)
        this.chart.describe(`Median relative squared error at ${BUDGETS[last]} total draws: `
            + `${ends.join(", ")}.`)
    }
}

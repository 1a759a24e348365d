// The densities of a problem on the line, and the log-ratio of q1 to g below.

import {decimalStepAbove, integral, stepAbove} from "../../js/grids.mjs"
import {lineCase} from "../../js/line.mjs"
import {Chart} from "./chart.mjs"
import {number} from "./text.mjs"

const WANTED = ["posterior", "target", "target_minus"]
const LEARNT = ["q2", "q1", "q1_minus"]
// Heights change in steps: an axis that changed with every move could not be read.
const HEIGHTS = [1, 1.5, 2, 3, 4, 6, 8, 10], LEAST_HEIGHT = 0.3
const HALF_HEIGHTS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]

const largest = values =>
    values?.reduce((most, v) => (Number.isFinite(v) ? Math.max(most, v) : most), 0) ?? 0

export class LinePicture {
    constructor(host, below, styles) {
        this.top = new Chart(host, {
            label: "Densities", xLabel: "x", yLabel: "density", height: 300,
        })
        this.bottom = new Chart(below, {
            label: "Log-ratio of q1 to g", xLabel: "x", yLabel: "log q₁ − log g, nats",
            height: 190,
        })
        const dash = name => styles[name].dash.join(" ")
        const line = (chart, name, width) => chart.add("path", {
            stroke: `var(--${name})`, "stroke-width": width, "stroke-dasharray": dash(name),
            "data-line": name,
        })
        const band = chart =>
            chart.add("rect", {fill: "var(--region)", "fill-opacity": 0.16, y: 0, height: 1000})
        const bound = chart => chart.add("line", {
            stroke: "var(--threshold)", "stroke-width": 1.5, "stroke-dasharray": dash("threshold"),
            y1: 0, y2: 1000,
        })
        this.marks = [this.top, this.bottom].map(chart => [chart, band(chart), bound(chart)])
        this.areas = Object.fromEntries(WANTED.map(name => [name, this.top.add("path", {
            fill: `var(--${name})`, "fill-opacity": name == "posterior" ? 0.18 : 0.3,
        })]))
        this.lines = Object.fromEntries([
            ...WANTED.map(name => [name, line(this.top, name, 1.5)]),
            ...LEARNT.map(name => [name, line(this.top, name, 2.5)]),
        ])
        this.zero = this.bottom.add("line", {stroke: "var(--target)", x1: 0, x2: 5000})
        this.ratios = {
            log_ratio: line(this.bottom, "q1", 2.5),
            log_ratio_minus: line(this.bottom, "q1_minus", 2.5),
        }
    }

    /** Draws the case; `weights` are stored proposals by name, `extent` the ends of x. */
    draw(weights, problem, y, theta, {extent}) {
        const {columns, region} = lineCase(weights, problem, y, theta, extent)
        Object.assign(this, {columns, region, theta})
        this.show(extent)
    }

    show(extent) {
        const {x} = this.columns, columns = this.columns
        const most = Math.max(...WANTED.map(name => largest(columns[name])))
        // A bad q1 can be a spike: it may leave the picture, g and the posterior may not.
        const learnt = Math.max(largest(columns.q1), largest(columns.q1_minus))
        const height = Math.max(1.05 * Math.max(most, Math.min(learnt, 1.3 * most)), LEAST_HEIGHT)
        this.top.range(extent, [0, decimalStepAbove(height, HEIGHTS)])
        for (const [name, area] of Object.entries(this.areas)) {
            area.setAttribute("d", columns[name] ? this.top.area(x, columns[name]) : "")
        }
        for (const [name, line] of Object.entries(this.lines)) {
            line.setAttribute("d", columns[name] ? this.top.path(x, columns[name]) : "")
        }
        this.showRatios(extent)
        for (const [chart, band, bound] of this.marks) {
            const [left, right] = this.region.map(v => chart.px(v)), at = chart.px(this.theta[0])
            band.setAttribute("x", left)
            band.setAttribute("width", Math.max(right - left, 0))
            bound.setAttribute("x1", at)
            bound.setAttribute("x2", at)
        }
    }

    showRatios(extent) {
        const {x, target_minus: gMinus} = this.columns
        const matters = {
            log_ratio: i => x[i] > this.region[0] && x[i] <= this.region[1],
            log_ratio_minus: i => gMinus[i] > 0.01 * largest(gMinus),
        }
        let most = 0
        for (const [name, inside] of Object.entries(matters)) {
            most = Math.max(most, largest(
                this.columns[name]?.map((v, i) => (inside(i) ? Math.abs(v) : 0))))
        }
        const half = stepAbove(1.1 * most, HALF_HEIGHTS)
        this.bottom.range(extent, [-half, half])
        for (const [name, line] of Object.entries(this.ratios)) {
            const ratio = this.columns[name]
            line.setAttribute("d", ratio ? this.bottom.path(x, ratio) : "")
            // One line alone needs no dashes.
            line.style.strokeDasharray = gMinus ? "" : "none"
        }
        const zero = this.bottom.py(0)
        this.zero.setAttribute("y1", zero)
        this.zero.setAttribute("y2", zero)
    }

    /** Says in words what is drawn. */
    describe() {
        const {x, target, q1, log_ratio: ratio} = this.columns
        const [low, high] = this.region.map(v => number(v))
        // Both densities have mass one: with them the integrand is nowhere negative.
        const gap = target.map((g, i) =>
            (Number.isNaN(ratio[i]) ? 0 : -g * ratio[i] - g + q1[i]))
        const divergence = number(Math.max(integral(gap, x), 0), 2)
        this.top.describe(`Densities over x. The threshold is at ${number(this.theta[0])}. `
            + `99 % of g lies from ${low} to ${high}. `
            + `The divergence of q1 from g is ${divergence} nats.`)
        const [, end] = this.bottom.ends.y
        this.bottom.describe("Log-ratio of q1 to g over x, in nats. Where 99 % of g lies it stays "
            + `within ${number(end)} nats of zero.`)
    }
}

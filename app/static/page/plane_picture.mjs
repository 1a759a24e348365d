// The product peak on the unit square: g as shades, q1 as contour lines at the same levels.

import {proposalAt} from "../../javascript/proposals.mjs"
import {TARGETS} from "../../javascript/targets.mjs"
import {Chart} from "./chart.mjs"
import {contour} from "./contours.mjs"
import {even, stepAbove} from "../../javascript/grids.mjs"
import {number} from "./text.mjs"

// Shares of the highest density of g, and how dark it is above each.
const LEVELS = [0.05, 0.2, 0.4, 0.6, 0.8], SHADES = [0.25, 0.41, 0.57, 0.74, 0.9]
// Widths of the close-up, as shares of the whole.
const WIDTHS = [0.1, 0.2, 0.4, 0.7, 1]
const POINTS = 25, MORE = 3

export class PlanePicture {
    constructor(whole, closer, styles, names) {
        this.charts = [[whole, ""], [closer, "Close-up. "]].map(([host, start]) => {
            const chart = new Chart(host, {
                label: "Densities over the unit square", xLabel: names[0], yLabel: names[1],
            })
            const lines = chart.add("path", {
                stroke: "var(--q1)", "stroke-width": 2, "data-line": "q1",
                "stroke-dasharray": styles.q1.dash.join(" "),
            })
            return {chart, lines, start}
        })
    }

    /** Draws the case; `weights` are stored proposals by name. */
    draw(weights, problem, y, theta) {
        this.theta = theta
        const a = 10 ** (2 * theta[2]), target = TARGETS[problem]
        // Points as close at the centre as the peak is sharp.
        const ends = [0, 1].map(d => [Math.asinh(-a * theta[d]), Math.asinh(a * (1 - theta[d]))])
        const count = POINTS + MORE * Math.ceil(Math.max(...ends.map(([low, high]) => high - low)))
        const axes = ends.map(([low, high], d) => even(low, high, count).map(v =>
            Math.min(Math.max(theta[d] + Math.sinh(v) / a, 0), 1)))
        const q1 = proposalAt(weights.q1_plus, y, theta)
        const logs = axes[0].map(first => axes[1].map(second => q1.logProb([first, second])))
        const highest = -target.logParts(y, theta)[0]
        this.pieces = LEVELS.flatMap(share => contour(...axes, logs, highest + Math.log(share)))
        this.sharpness = a
        this.show()
    }

    show() {
        const a = this.sharpness, reach = Math.sqrt(1 / LEVELS[0] - 1) / a
        const around = this.theta.slice(0, 2).map(u => {
            const low = Math.max(u - reach, 0), high = Math.min(u + reach, 1)
            const width = stepAbove(1.1 * (high - low), WIDTHS)
            const start = Math.min(Math.max((low + high - width) / 2, 0), 1 - width)
            return [start, start + width]
        })
        this.charts.forEach(({chart, lines}, i) => {
            chart.range(...(i == 0 ? [[0, 1], [0, 1]] : around))
            const at = (x, y) => `${chart.px(x).toFixed(2)} ${chart.py(y).toFixed(2)}`
            lines.setAttribute("d", this.pieces.map(([x, y, v, w]) =>
                `M${at(x, y)}L${at(v, w)}`).join(""))
            this.shade(chart)
        })
    }

    shade(chart) {
        if (!chart.width) { return }
        const {canvas, size, ends} = chart, ratio = Math.min(window.devicePixelRatio || 1, 2)
        const width = Math.round(size.x * ratio), height = Math.round(size.y * ratio)
        if (canvas.width != width || canvas.height != height) {
            Object.assign(canvas, {width, height})
        }
        const heights = (axis, count, u) => Float64Array.from({length: count}, (_, i) => {
            const [low, high] = ends[axis], x = low + (high - low) * (i + 0.5) / count
            return 1 / (1 + (this.sharpness * (x - u)) ** 2)
        })
        const across = heights("x", width, this.theta[0])
        const up = heights("y", height, this.theta[1]).reverse()
        const shades = [0, ...SHADES].map(share => Math.round(255 * share))
        const pixels = new Uint32Array(width * height), ink = this.ink(canvas)
        for (let row = 0, at = 0; row < height; row++) {
            for (let column = 0; column < width; column++, at++) {
                const f = up[row] * across[column]
                let level = 0
                while (level < LEVELS.length && f > LEVELS[level]) { level++ }
                pixels[at] = (shades[level] << 24 | ink) >>> 0
            }
        }
        const image = new ImageData(new Uint8ClampedArray(pixels.buffer), width, height)
        canvas.getContext("2d").putImageData(image, 0, 0)
    }

    /** The colour of g, as the pixels of a little-endian machine have it, without its opacity. */
    ink(canvas) {
        canvas.style.color = "var(--target)"
        const [red, green, blue] = getComputedStyle(canvas).color.match(/\d+/g).map(Number)
        return blue << 16 | green << 8 | red
    }

    /** Says in words what is drawn. */
    describe() {
        const [first, second] = this.theta.map(v => number(v))
        for (const {chart, start} of this.charts) {
            chart.describe(`${start}Densities over the unit square. g is highest near (${first}, `
                + `${second}) and falls to half at a distance of ${number(1 / this.sharpness, 2)} `
                + "along either axis. Contour lines of q1 at the same levels.")
        }
    }
}

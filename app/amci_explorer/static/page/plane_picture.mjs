// The product peak on the unit square: g as shades, q1 as contour lines at the same levels.

import {contour} from "../../js/contours.mjs"
import {LEVELS, closeUp, planeCase} from "../../js/plane.mjs"
import {TARGETS} from "../../js/targets.mjs"
import {Chart} from "./chart.mjs"
import {number} from "./text.mjs"

// How dark g is above each level.
const SHADES = [0.25, 0.41, 0.57, 0.74, 0.9]

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
        const found = planeCase(weights, problem, y, theta)
        // The picture's shades are exact, so the lines are straight in the logarithm.
        const highest = -TARGETS[problem].logParts(y, theta)[0]
        this.lines = LEVELS.flatMap(share =>
            contour(...found.axes, found.logQ, highest + Math.log(share)))
        this.around = closeUp(found)
        this.sharpness = 10 ** (2 * theta[2])
        this.show()
    }

    show() {
        this.charts.forEach(({chart, lines}, i) => {
            chart.range(...(i == 0 ? [[0, 1], [0, 1]] : this.around))
            const at = (x, y) => `${chart.px(x).toFixed(2)} ${chart.py(y).toFixed(2)}`
            lines.setAttribute("d", this.lines.map(([xs, ys]) =>
                `M${xs.map((x, i) => at(x, ys[i])).join("L")}`).join(""))
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

// A chart in SVG: axes that are drawn again only when they change, and paths in their units.

import {drawn, element, raised} from "./text.mjs"

const LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 40
const FAR = 1e4 // pixels; what lies beyond is cut there

/** Round numbers between two ends, about so many. */
function ticks(low, high, count) {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw))
    const step = power * [1, 2, 5, 10].find(s => s * power >= raw * 0.999)
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9))
    const found = []
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
        found.push([i * step, (i * step).toFixed(digits).replace("-", "−")])
    }
    return found
}

/** Powers of ten between two ends, at most about so many. */
function decades(low, high, count) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9)
    const every = Math.max(1, Math.ceil((last - first) / count))
    const powers = Array.from({length: last - first + 1}, (_, i) => first + i)
    return powers.filter(p => p % every == 0).map(p =>
        [10 ** p, p == 0 ? "1" : p == 1 ? "10" : `10${raised(p)}`])
}

let made = 0

export class Chart {
    /**
     * Creates an empty chart in an element of the page.
     *
     * label: its text alternative, until `describe`
     * xLabel, yLabel: names of the axes
     * height: in pixels; null for a square
     * log: names of the axes, "x" and "y", that are logarithmic
     */
    constructor(host, {label, xLabel, yLabel, height = null, log = []}) {
        this.host = host
        this.options = {xLabel, yLabel, height, log}
        this.ends = {x: [0.1, 1], y: [0.1, 1]}
        this.size = {x: 1, y: 1} // until there is room
        this.canvas = element("canvas", {"aria-hidden": "true"})
        this.axes = drawn("g")
        this.clip = drawn("rect", {x: LEFT, y: TOP})
        const id = `clip-${made++}`
        this.plot = drawn("g", {"clip-path": `url(#${id})`})
        this.svg = drawn("svg", {role: "img", "aria-label": label},
            drawn("clipPath", {id}, this.clip), this.axes, this.plot)
        host.classList.add("chart")
        host.append(this.canvas, this.svg)
        this.resized = () => {}
        new ResizeObserver(() => { if (this.measure()) { this.resized() } }).observe(host)
        this.measure()
    }

    /** Takes the room that there is; says whether it changed. */
    measure() {
        const width = this.host.clientWidth
        if (width == 0 || width == this.width) { return false }
        this.width = width
        this.height = this.options.height ?? width - LEFT - RIGHT + TOP + BOTTOM
        this.size = {x: width - LEFT - RIGHT, y: this.height - TOP - BOTTOM}
        this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`)
        this.svg.setAttribute("height", this.height)
        this.clip.setAttribute("width", this.size.x)
        this.clip.setAttribute("height", this.size.y)
        Object.assign(this.canvas.style, {
            left: `${LEFT}px`, top: `${TOP}px`,
            width: `${this.size.x}px`, height: `${this.size.y}px`,
        })
        this.drawAxes()
        return true
    }

    /** Sets what the axes show. */
    range(x, y) {
        const same = [...x, ...y].every((v, i) => v === [...this.ends.x, ...this.ends.y][i])
        this.ends = {x, y}
        if (!same) { this.drawAxes() }
    }

    /** Sets the name of the upright axis. */
    rename(yLabel) {
        if (yLabel != this.options.yLabel) {
            this.options.yLabel = yLabel
            this.drawAxes()
        }
    }

    /** Sets the text alternative. */
    describe(text) { this.svg.setAttribute("aria-label", text) }

    /** An empty path in the plot, or a mark of that kind. */
    add(name, attributes) {
        const made = drawn(name, {fill: "none", ...attributes})
        this.plot.append(made)
        return made
    }

    share(axis, value) {
        const of = this.options.log.includes(axis) ? Math.log : v => v
        const [low, high] = this.ends[axis].map(of)
        return (of(value) - low) / (high - low)
    }

    px(x) { return LEFT + this.size.x * this.share("x", x) }

    py(y) {
        const down = TOP + this.size.y * (1 - this.share("y", y))
        return Math.min(Math.max(down, -FAR), FAR)
    }

    /** The path through points; where y is NaN it is broken. */
    path(xs, ys) {
        let found = "", pen = "M"
        for (let i = 0; i < xs.length; i++) {
            if (Number.isNaN(ys[i])) { pen = "M"; continue }
            found += `${pen}${this.px(xs[i]).toFixed(2)} ${this.py(ys[i]).toFixed(2)}`
            pen = "L"
        }
        return found
    }

    /** The area between a line and the line of the other values, or the bottom of the plot. */
    area(xs, ys, others = null) {
        const back = Array.from(xs).reverse()
        const low = others == null ? back.map(() => this.ends.y[0]) : Array.from(others).reverse()
        return `${this.path(xs, ys)}${this.path(back, low).replace("M", "L")}Z`
    }

    drawAxes() {
        if (!this.width) { return }
        const {xLabel, yLabel, log} = this.options, {x, y} = this.size
        const marks = (axis, count) =>
            (log.includes(axis) ? decades : ticks)(...this.ends[axis], count)
        const line = (x1, y1, x2, y2) => drawn("line", {class: "grid", x1, y1, x2, y2})
        const text = (at, where, words, more = {}) =>
            drawn("text", {x: at, y: where, "text-anchor": "middle", ...more}, words)
        const parts = []
        for (const [value, words] of marks("x", Math.max(3, Math.round(x / 80)))) {
            const at = this.px(value)
            parts.push(line(at, TOP, at, TOP + y), text(at, TOP + y + 16, words))
        }
        for (const [value, words] of marks("y", Math.max(3, Math.round(y / 45)))) {
            const at = this.py(value)
            parts.push(line(LEFT, at, LEFT + x, at),
                text(LEFT - 6, at + 4, words, {"text-anchor": "end"}))
        }
        const middle = TOP + y / 2
        parts.push(
            drawn("rect", {class: "frame", x: LEFT, y: TOP, width: x, height: y}),
            text(LEFT + x / 2, TOP + y + 34, xLabel),
            text(12, middle, yLabel, {transform: `rotate(-90 12 ${middle})`}))
        this.axes.replaceChildren(...parts)
    }
}

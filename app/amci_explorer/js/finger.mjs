// Densities follow a handle in the frame in which it moves: the page computes them by itself. The
// server's answer takes their place as soon as it is for where the handle is.

import {lineCase} from "./line.mjs"
import {areasAndLines, closeUp, planeCase} from "./plane.mjs"
import {decoded} from "./proposals.mjs"
import {TARGETS, atMismatch} from "./targets.mjs"

// Pictures and their data: the densities on either axis, and the log-ratio below.
const ON_THE_LINE = {
    "densities-linear": "densities",
    "densities-log": "densities-log-axis",
    "log-ratio": "log-ratio-data",
}
// Milliseconds without an answer, of a server that may be busy; then what it last said is shown.
const PATIENCE = 5000

/** The columns of a picture's data; what there is none of is NaN. */
function columnsFor(picture, found, names) {
    const of = picture != "log-ratio" ? found
        : {x: found.x, q1: found.log_ratio, q1_minus: found.log_ratio_minus}
    const missing = new Float64Array(found.x.length).fill(NaN)
    return Object.fromEntries(names.map(name => [name, of[name] ?? missing]))
}

/** Parts of the page and what to set of them, for a case on the line. */
function lineParts(page, weights, {problem, extent}, {y, theta}) {
    const {columns, region: [left, right]} = lineCase(weights, problem, y, theta, extent)
    return Object.entries(ON_THE_LINE).flatMap(([picture, data]) => {
        const shown = page.get_model_by_name(picture), source = page.get_model_by_name(data)
        if (shown == null || source == null) { return [] }
        const band = shown.center.find(each => each.type == "BoxAnnotation")
        const bound = shown.center.find(
            each => each.type == "Span" && each.dimension == "height")
        return [
            [source, {data: columnsFor(picture, columns, Object.keys(source.data))}],
            [band, {left, right}],
            [bound, {location: theta[0]}],
        ]
    })
}

/** As `lineParts`, for a case in the plane. */
function planeParts(page, weights, {problem}, {y, theta}) {
    const found = planeCase(weights, problem, y, theta)
    const {areas, lines} = areasAndLines(found)
    const [target, q1, {x_range, y_range}] =
        ["plane-target-data", "plane-q1-data", "plane-close-up"].map(
            name => page.get_model_by_name(name))
    const rings = axis => areas.map(
        level => (level.length > 0 ? [level.map(ring => ring[axis])] : []))
    // Lines of a level are one, with gaps.
    const joined = axis => lines.map(level => level.flatMap(line => [...line[axis], NaN]))
    const [across, up] = closeUp(found).map(([start, end]) => ({start, end}))
    return [
        [target, {data: {xs: rings(0), ys: rings(1), alpha: target.data.alpha}}],
        [q1, {data: {xs: joined(0), ys: joined(1)}}],
        [x_range, across],
        [y_range, up],
    ]
}

export function render({view}) {
    // A layout that changes renders it again; what it listens to is there for as long as the page.
    const page = view.model.document, model = view.model.data
    if (page.finger == model) { return }
    page.finger = model
    // The proposals, and whose they are; where the handles are, if that is not yet answered.
    let weights = null, of = "", here = null, timer = null
    let painting = false, isTold = false
    // What the server last said, by part of the page.
    const said = new Map()
    const listen = (part, names) => {
        const kept = {}
        said.set(part, kept)
        for (const name of names) {
            kept[name] = part[name]
            part.properties[name].change.connect(() => {
                if (painting) { return }
                kept[name] = part[name]
                if (name == "data" && !isTold) {
                    // The rest of the message comes first.
                    isTold = true
                    queueMicrotask(answered)
                }
            })
        }
    }
    const put = parts => {
        painting = true
        for (const [part, values] of parts) { part.setv(values, {sync: false}) }
        painting = false
    }
    const paint = () => {
        const partsFor = TARGETS[model.problem].dim == 1 ? lineParts : planeParts
        const parts = partsFor(page, weights, model, here)
        for (const [part, values] of parts) {
            if (!said.has(part)) { listen(part, Object.keys(values)) }
        }
        put(parts)
    }
    const forget = () => {
        here = null
        window.clearTimeout(timer)
    }
    const isAnswered = () => {
        const at = here.name == "level" ? model.level : model[here.name][here.coordinate]
        return Math.abs(at - here.value) <= here.tolerance
    }
    const answered = () => {
        isTold = false
        if (here == null) { return }
        if (model.key != of || isAnswered()) { forget() } else { paint() }
    }
    const giveUp = () => {
        if (here != null && model.key == of) { put(said) }
        forget()
    }

    const moved = ([name, coordinate], {value, step}) => {
        const {y, theta} = here ?? model
        const to = values => values.map((old, i) => (i == coordinate ? value : old))
        const [newY, newTheta] = name == "level"
            ? atMismatch(TARGETS[model.problem], value, y, theta)
            : [name == "y" ? to(y) : y, name == "theta" ? to(theta) : theta]
        here = {y: newY, theta: newTheta, name, coordinate, value, tolerance: step / 2}
        window.clearTimeout(timer)
        timer = window.setTimeout(giveUp, PATIENCE)
        paint()
    }
    // The handle that is used. Only that one is believed: React can set others back to where
    // the server had put them, as if they had been moved.
    let used = null
    page.on_change(({model: handle, attr, sync}) => {
        // What the server has changed is not told it again.
        const isMove = attr == "value" && sync && handle == used && weights != null
        if (isMove && model.key == of) { moved(model.handles[handle.label], handle) }
    })
    // Weights are asked for when a handle is first reached.
    const reached = event => {
        const path = event.composedPath()
        if (!path[0].closest?.(".MuiSlider-root")) { return }
        model.asked = model.key
        if (event.type != "pointerover") {
            const handles = v => v.model.data?.label in model.handles && path.includes(v.el)
            used = [...Bokeh.index.query(handles)][0]?.model.data
        }
    }
    // Of a focus that goes from slider to slider nothing outside of their column hears.
    for (const event of ["pointerover", "focusin", "pointerdown", "keydown"]) {
        document.addEventListener(event, reached, true)
    }
    const take = () => {
        weights = null
        if (model.weights == "") { return }
        const stored = JSON.parse(model.weights)
        weights = Object.fromEntries(Object.entries(stored.proposals).map(
            ([name, each]) => [name, decoded(each)]))
        of = stored.key
    }
    model.properties.weights.change.connect(take)
    take()
}

// Densities on the line follow a handle in the frame in which it moves: the page computes them by
// itself. The server's answer takes their place as soon as it is for where the handle is.

import {lineCase} from "./line.mjs"
import {decoded} from "./proposals.mjs"
import {TARGETS, atMismatch} from "./targets.mjs"

// Pictures and their data: the densities on either axis, and the log-ratio below.
const PICTURES = {
    "densities-linear": "densities",
    "densities-log": "densities-log-axis",
    "log-ratio": "log-ratio-data",
}
const PATIENCE = 1500 // milliseconds without an answer; then what the server last said is shown

/** The columns of a picture's data; what there is none of is NaN. */
function columnsFor(picture, found, names) {
    const of = picture != "log-ratio" ? found
        : {x: found.x, q1: found.log_ratio, q1_minus: found.log_ratio_minus}
    const missing = new Float64Array(found.x.length).fill(NaN)
    return Object.fromEntries(names.map(name => [name, of[name] ?? missing]))
}

export function render({view}) {
    // A layout that changes renders it again; what it listens to is there for as long as the page.
    const page = view.model.document, model = view.model.data
    if (page.finger == model) { return }
    page.finger = model
    // The proposals, and whose they are; where the handles are, if that is not yet answered.
    let weights = null, of = "", here = null, timer = null
    let painting = false
    const pictures = () => Object.entries(PICTURES).flatMap(([picture, data]) => {
        const shown = page.get_model_by_name(picture), source = page.get_model_by_name(data)
        if (shown == null || source == null) { return [] }
        const marks = shown.center
        return [{
            picture,
            source,
            band: marks.find(each => each.type == "BoxAnnotation"),
            bound: marks.find(each => each.type == "Span" && each.dimension == "height"),
        }]
    })
    // What the server last said, by source.
    const said = new Map()
    const keep = ({source, band, bound}) => said.set(source, {
        data: source.data, left: band.left, right: band.right, location: bound.location,
    })
    const put = ({source, band, bound}, {data, left, right, location}) => {
        painting = true
        source.setv({data}, {sync: false})
        band.setv({left, right}, {sync: false})
        bound.setv({location}, {sync: false})
        painting = false
    }
    const paint = () => {
        const {columns, region: [left, right]} =
            lineCase(weights, model.problem, here.y, here.theta, model.extent)
        for (const each of pictures()) {
            if (!said.has(each.source)) {
                keep(each)
                each.source.properties.data.change.connect(() => {
                    if (!painting) { queueMicrotask(() => answered(each)) }
                })
            }
            const data = columnsFor(each.picture, columns, Object.keys(each.source.data))
            put(each, {data, left, right, location: here.theta[0]})
        }
    }
    const forget = () => {
        here = null
        window.clearTimeout(timer)
    }
    const isAnswered = () => {
        const at = here.name == "level" ? model.level : model[here.name][0]
        return Math.abs(at - here.value) <= here.tolerance
    }
    const answered = each => {
        keep(each)
        if (here == null) { return }
        if (model.key != of) { forget() } else if (isAnswered()) { forget() } else { paint() }
    }
    const giveUp = () => {
        if (here != null && model.key == of) {
            for (const each of pictures()) {
                if (said.has(each.source)) { put(each, said.get(each.source)) }
            }
        }
        forget()
    }

    const moved = (name, {value, step}) => {
        const {y, theta} = here ?? model
        const [newY, newTheta] = name == "level"
            ? atMismatch(TARGETS[model.problem], value, y, theta)
            : [name == "y" ? [value] : y, name == "theta" ? [value] : theta]
        here = {y: newY, theta: newTheta, name, value, tolerance: step / 2}
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

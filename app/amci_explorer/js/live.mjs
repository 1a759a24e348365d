// Fills the pictures of a Bokeh document for a case, in the page: no server is asked.

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

/**
 * What evaluates a problem's densities.
 *
 * problem: its name, a key of TARGETS
 * proposals: stored proposals by name
 */
export const evaluatorOf = ({problem, proposals}) => ({
    problem,
    weights: Object.fromEntries(
        Object.entries(proposals).map(([name, stored]) => [name, decoded(stored)])),
})

/**
 * The case, {y, theta, level}, that a handle leads to from another.
 *
 * variable: y, theta or level; coordinate: which of it; value: where to
 */
export function movedCase({problem}, {y, theta}, {variable, coordinate, value}) {
    const target = TARGETS[problem], to = old => old.map((v, i) => (i == coordinate ? value : v))
    const [newY, newTheta] = variable == "level" ? atMismatch(target, value, y, theta)
        : variable == "y" ? [to(y), theta] : [y, to(theta)]
    const level = variable == "level" ? value : target.mismatch(newY, newTheta)
    return {y: newY, theta: newTheta, level}
}

/**
 * Fills the sources and ranges of a document's pictures, by name.
 *
 * evaluator: out of `evaluatorOf`; on the line with `extent`, what the pictures show of x
 */
export function paint(document, evaluator, {y, theta}) {
    const parts = TARGETS[evaluator.problem].dim == 1 ? lineParts : planeParts
    for (const [part, values] of parts(document, evaluator, y, theta)) {
        part.setv(values, {sync: false})
    }
}

/** The columns of a picture's data; what there is none of is NaN. */
function columnsFor(picture, found, names) {
    const of = picture != "log-ratio" ? found
        : {x: found.x, q1: found.log_ratio, q1_minus: found.log_ratio_minus}
    const missing = new Float64Array(found.x.length).fill(NaN)
    return Object.fromEntries(names.map(name => [name, of[name] ?? missing]))
}

function lineParts(page, {weights, problem, extent}, y, theta) {
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

function planeParts(page, {weights, problem}, y, theta) {
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

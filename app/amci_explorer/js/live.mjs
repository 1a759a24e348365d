// Fills the pictures of a Bokeh document for a case, in the page: no server is asked.

import {lineCase} from "./line.mjs"
import {areasAndLines, closeUp, planeCase} from "./plane.mjs"
import {decoded} from "./proposals.mjs"
import {DECADES, FAR_RIGHT, FLANK, HIGHEST, PANELS, ROOM} from "./shared.json"
import {TARGETS, atMismatch} from "./targets.mjs"

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

function lineParts(page, {weights, problem, extent}, y, theta) {
    const columns = lineCase(weights, problem, y, theta, extent)
    const {x, log_ratio, log_ratio_minus} = columns
    const missing = new Float64Array(x.length).fill(NaN)
    const filled = (name, of) => {
        const source = page.get_model_by_name(name), names = Object.keys(source?.data ?? {})
        return [source, {data: Object.fromEntries(names.map(each => [each, of[each] ?? missing]))}]
    }
    return [
        filled("densities", columns),
        [page.get_model_by_name("densities-threshold"), {data: {x: [theta[0]]}}],
        filled("log-ratio-data", {x, q1: log_ratio, q1_minus: log_ratio_minus}),
        ...["", "-log"].flatMap(ending => Object.keys(PANELS).flatMap(
            each => panelParts(page, `densities-${each}${ending}`, PANELS[each], columns, extent))),
    ].filter(([part]) => part != null)
}

/** The y axis of a panel, and where its lines have their names. */
function panelParts(page, name, {wanted, learnt}, columns, [low, high]) {
    const figure = page.get_model_by_name(name)
    if (figure == null) { return [] }
    const highest = names => Math.max(...names.map(each =>
        (columns[each] ?? []).reduce((a, b) => Math.max(a, b), 0)))
    const target = highest(wanted)
    const top = Math.max(target, Math.min(highest(learnt), HIGHEST * target))
    const [start, end] = (name.endsWith("-log") ? DECADES : [0, ROOM]).map(v => v * top)
    const range = [figure.y_range, {start, end, reset_start: start, reset_end: end}]
    const {x} = columns, there = learnt.filter(each => columns[each] != null)
    const peaks = there.map(each => columns[each].indexOf(highest([each])))
    return [range, ...there.map((each, i) => {
        const density = columns[each], least = FLANK * highest([each])
        const last = density.findLastIndex(v => v >= least)
        // Of two lines the left one has its name at its left.
        const isLeft = peaks[i] < Math.max(...peaks) || x[last] > low + FAR_RIGHT * (high - low)
        const at = isLeft ? density.findIndex(v => v >= least) : last
        return [page.get_model_by_name(`${name}-${each}-name`), {
            x: x[at],
            y: Math.min(density[at], 0.8 * end),
            x_offset: isLeft ? -8 : 8,
            text_align: isLeft ? "right" : "left",
        }]
    })]
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

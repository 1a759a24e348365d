// Fills the pictures of a Bokeh document for a case, in the page: no server is asked.

import {lineCase} from "./line.mjs"
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
 * variable: y, theta or level; value: where to
 */
export function movedCase({problem}, {y, theta}, {variable, value}) {
    const target = TARGETS[problem]
    if (variable == "level") { return {y, theta: atMismatch(target, value, y, theta), level: value} }
    const to = {y, theta, [variable]: [value]}
    return {...to, level: target.mismatch(to.y, to.theta)}
}

/**
 * Fills the sources and ranges of a document's pictures, by name.
 *
 * The evaluator is out of `evaluatorOf`, with `extent`, what the pictures show of x.
 */
export function paint(page, {weights, problem, extent}, {y, theta}) {
    const columns = lineCase(weights, problem, y, theta, extent)
    const {x, log_ratio, log_ratio_minus} = columns
    const missing = new Float64Array(x.length).fill(NaN)
    const filled = (name, of) => {
        const source = page.get_model_by_name(name), names = Object.keys(source?.data ?? {})
        return [source, {data: Object.fromEntries(names.map(each => [each, of[each] ?? missing]))}]
    }
    const parts = [
        filled("densities", columns),
        [page.get_model_by_name("densities-threshold"), {data: {x: [theta[0]]}}],
        filled("log-ratio-data", {x, q1: log_ratio, q1_minus: log_ratio_minus}),
        ...["", "-log"].flatMap(ending => Object.keys(PANELS).flatMap(
            each => panelParts(page, `densities-${each}${ending}`, PANELS[each], columns, extent))),
    ]
    for (const [part, values] of parts) { part?.setv(values, {sync: false}) }
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

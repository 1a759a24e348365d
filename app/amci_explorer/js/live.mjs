// Fills the pictures of a Bokeh document for a case, in the page: no server is asked.

import {lineCase} from "./line.mjs"
import {decoded} from "./proposals.mjs"
import {DECADES, HIGHEST, PANELS, ROOM} from "./shared.json"
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
    const missing = new Float64Array(columns.x.length).fill(NaN)
    const source = page.get_model_by_name("densities"), names = Object.keys(source.data)
    const parts = [
        [source, {data: Object.fromEntries(names.map(each => [each, columns[each] ?? missing]))}],
        [page.get_model_by_name("densities-threshold"), {data: {x: [theta[0]]}}],
        ...Object.keys(PANELS).map(each => [
            page.get_model_by_name(`densities-${each}`)?.y_range,
            heights(page.get_model_by_name(`densities-${each}`), PANELS[each], columns),
        ]),
    ]
    for (const [part, values] of parts) { part?.setv(values, {sync: false}) }
}

/** The ends of a panel's y axis. */
function heights(figure, {wanted, learnt}, columns) {
    const highest = names => Math.max(...names.map(each =>
        (columns[each] ?? []).reduce((a, b) => Math.max(a, b), 0)))
    const target = highest(wanted)
    const top = Math.max(target, Math.min(highest(learnt), HIGHEST * target))
    const isLog = figure?.y_scale.type == "LogScale"
    const [start, end] = (isLog ? DECADES : [0, ROOM]).map(v => v * top)
    return {start, end, reset_start: start, reset_end: end}
}

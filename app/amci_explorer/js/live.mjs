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
    const of = name => page.get_model_by_name(`densities${name}`)
    of("").setv({data: columns}, {sync: false})
    of("-threshold").setv({data: {x: [theta[0]]}}, {sync: false})
    for (const [name, wanted] of Object.entries(PANELS)) {
        const figure = of(`-${name}`)
        if (figure == null) { continue }
        // A bad proposal may leave the panel, what it must match may not.
        const [target, learnt] = [wanted, name].map(each => Math.max(...columns[each]))
        const top = Math.max(target, Math.min(learnt, HIGHEST * target))
        const [start, end] = figure.y_scale.type == "LogScale" ? DECADES : [0, ROOM]
        const ends = {start: start * top, end: end * top}
        figure.y_range.setv(
            {...ends, reset_start: ends.start, reset_end: ends.end}, {sync: false})
    }
}

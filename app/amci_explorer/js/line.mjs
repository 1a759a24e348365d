// What `amci_explorer.numbers.line` computes for a problem on the line, in the page: the columns of its
// picture at points x, so that a drag can be painted without asking the server.

import {densest, even} from "./grids.mjs"
import {proposalAt} from "./proposals.mjs"
import {TARGETS, logWanted} from "./targets.mjs"

// Instead of zero, which a logarithmic axis cannot show.
const SMALLEST_DENSITY = 1e-30
// The share of a density that is looked at more closely.
const SHOWN = 0.9995
const EVEN = 201, CLOSER = 121, COARSE = 401
const EDGE = 1e-7 // just inside the end of f's support, where g may jump
const density = log => Math.max(Math.exp(log), SMALLEST_DENSITY)
const ratio = (logQ, logG) =>
    (Number.isFinite(logQ) && Number.isFinite(logG) ? logQ - logG : NaN)

/**
 * The columns of a picture on the line, by name, as long as x.
 *
 * They are x, posterior, target, q1, log_ratio, q2 where there is one, and where f takes both
 * signs target_minus, q1_minus, log_ratio_minus. Densities are at least 1e-30, log-ratios in nats,
 * NaN where g is zero.
 *
 * weights: stored proposals by name (q1_plus, q1_minus, q2), out of `decoded`
 * problem: name of a problem on the line, a key of TARGETS
 * y, theta: arrays of numbers
 * x: points, an array of numbers
 */
export function lineColumns(weights, problem, y, theta, x) {
    const target = TARGETS[problem], points = Float64Array.from(x)
    const columns = {x: points, posterior: points.map(v => density(target.logPosterior([v], y)))}
    const sides = [["q1_plus", 1, ""], ["q1_minus", -1, "_minus"]]
    for (const [name, sign, ending] of sides.slice(0, target.signed ? 2 : 1)) {
        const q = proposalAt(weights[name], y, theta)
        const logQ = points.map(v => q.logProb([v]))
        const logG = points.map(v => logWanted(target, [v], y, theta, sign))
        columns[`target${ending}`] = logG.map(density)
        columns[`q1${ending}`] = logQ.map(density)
        columns[`log_ratio${ending}`] = logQ.map((log, i) => ratio(log, logG[i]))
    }
    if (weights.q2) {
        const q2 = proposalAt(weights.q2, y, theta)
        columns.q2 = points.map(v => density(q2.logProb([v])))
    }
    return columns
}

/**
 * The columns of a case's picture at points that lie close where g does.
 *
 * extent: ends of what the picture shows of x; all else as for `lineColumns`
 */
export function lineCase(weights, problem, y, theta, extent) {
    const target = TARGETS[problem], sides = target.signed ? [1, -1] : [1]
    const coarse = even(...target.window(y, theta), COARSE)
    const close = sides.map(sign => densest(
        coarse, coarse.map(v => Math.exp(logWanted(target, [v], y, theta, sign))), SHOWN))
    const x = Float64Array.from([
        ...even(...extent, EVEN), ...close.flatMap(ends => even(...ends, CLOSER)),
        theta[0] - EDGE, theta[0], theta[0] + EDGE,
    ]).sort()
    return lineColumns(weights, problem, y, theta, x)
}

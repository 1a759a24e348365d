// What `app.numbers.line` computes for a problem on the line, in the page: the columns of its
// picture at points x, so that a drag can be painted without asking the server.

import {proposalAt} from "./proposals.mjs"
import {TARGETS, logWanted} from "./targets.mjs"

// Instead of zero, which a logarithmic axis cannot show.
const SMALLEST_DENSITY = 1e-30
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

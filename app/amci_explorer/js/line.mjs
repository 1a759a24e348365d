// What `amci_explorer.numbers.line` computes, in the page: the columns of a picture at points x, so
// that a drag can be painted without asking the server.

import {proposalAt} from "./proposals.mjs"
import {TARGETS, logPosterior} from "./targets.mjs"

// Instead of zero, which a logarithmic axis cannot show.
const SMALLEST_DENSITY = 1e-30
// Points over the picture, and more of them where g is above this share of its maximum.
const EVEN = 401, CLOSER = 121, HIGH = 1e-3
const EDGE = 1e-7 // just inside the end of f's support, where g may jump

const even = (low, high, count) =>
    Array.from({length: count}, (_, i) => low + (high - low) * i / (count - 1))

/**
 * The columns of a picture on the line, by name, as long as x.
 *
 * They are x, posterior, target, q1, q2, and where f takes both signs target_minus and q1_minus.
 * Densities are at least 1e-30.
 *
 * weights: stored proposals by name (q1_plus, q1_minus, q2), out of `decoded`
 * problem: a key of TARGETS
 * y, theta: arrays of numbers
 * x: points, an array of numbers
 */
export function lineColumns(weights, problem, y, theta, x) {
    const {f, logParts} = TARGETS[problem], points = Float64Array.from(x)
    const of = log => points.map(v => Math.max(Math.exp(log(v)), SMALLEST_DENSITY))
    const learnt = name => of(proposalAt(weights[name], y, theta).logProb)
    const columns = {x: points, posterior: of(v => logPosterior(v, y)), q2: learnt("q2")}
    logParts(y, theta).forEach((whole, i) => {
        const [name, ending] = i ? ["q1_minus", "_minus"] : ["q1_plus", ""]
        columns[`target${ending}`] = of(v => Math.log(Math.max((i ? -1 : 1) * f(v, theta), 0))
            + logPosterior(v, y) - whole)
        columns[`q1${ending}`] = learnt(name)
    })
    return columns
}

/**
 * The columns of a case's picture at points that lie close where g does.
 *
 * extent: ends of what the picture shows of x; all else as for `lineColumns`
 */
export function lineCase(weights, problem, y, theta, extent) {
    const coarse = lineColumns(weights, problem, y, theta, even(...extent, EVEN))
    const closer = [coarse.target, coarse.target_minus].filter(g => g).flatMap(g => {
        const least = HIGH * Math.max(...g)
        const ends = [Math.max(g.findIndex(v => v > least) - 1, 0),
            Math.min(g.findLastIndex(v => v > least) + 1, EVEN - 1)]
        return even(...ends.map(i => coarse.x[i]), CLOSER)
    })
    const x = [...coarse.x, ...closer, theta[0] - EDGE, theta[0], theta[0] + EDGE]
    return lineColumns(weights, problem, y, theta, Float64Array.from(x).sort())
}

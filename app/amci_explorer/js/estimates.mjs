// Monte Carlo in the page: draws of all proposals, and estimators as tables. v[j][t] is the share
// of the term t (E1_plus, E1_minus, E2) that comes from the draws of j (q1_plus, q1_minus, q2).

import {proposalAt} from "./proposals.mjs"
import {logPosterior, truth} from "./targets.mjs"

const PROPOSALS = ["q1_plus", "q1_minus", "q2"]
// Two runs' seeds are this far apart.
const STRIDE = 7919

/** A function that gives uniform numbers in (0, 1], the same for the same seed: mulberry32. */
function uniforms(seed) {
    let state = seed | 0
    return () => {
        state = (state + 0x6d2b79f5) | 0
        let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
        mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
        // Zero is the end of a tail.
        return 1 - ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
    }
}

/**
 * Sums of h over the first i draws of each proposal, for i up to counts[j], h being f_plus w,
 * f_minus w and w.
 *
 * w is p(x | y) / q(x): by the posterior, so that E2 is one and nothing underflows.
 */
function drawn(target, densities, y, theta, counts, uniform) {
    return densities.map((q, j) => {
        if (q == null) { return null }
        const sums = PROPOSALS.map(() => new Float64Array(counts[j] + 1))
        for (let i = 0; i < counts[j]; i++) {
            const [x, logQ] = q.draw(uniform())
            const w = Math.exp(logPosterior(x, y) - logQ), f = target.f(x, theta)
            const brought = [Math.max(f, 0) * w, Math.max(-f, 0) * w, w]
            brought.forEach((h, t) => { sums[t][i + 1] = sums[t][i] + h })
        }
        return sums
    })
}

/** An estimate of mu out of the first counts[j] draws of each proposal. */
function estimate(table, draws, counts) {
    const [plus, minus, below] = PROPOSALS.map((_, t) => table.reduce((sum, shares, j) =>
        sum + (shares[t] && draws[j] ? shares[t] * draws[j][t][counts[j]] / counts[j] : 0), 0))
    return (plus - minus) / below
}

/** How many draws of each proposal a table gets of a budget: as many from each that it uses. */
function split(table, densities, total) {
    const used = [0, 1, 2].filter(j => densities[j] != null && table[j].some(share => share != 0))
    const count = rank => Math.floor(total / used.length) + (rank < total % used.length ? 1 : 0)
    return [0, 1, 2].map(j => (used.includes(j) ? count(used.indexOf(j)) : 0))
}

const at = (weights, y, theta) =>
    PROPOSALS.map(name => (weights[name] ? proposalAt(weights[name], y, theta) : null))

/**
 * Squared errors of estimators, relative to mu squared (absolute where mu is zero), run after run.
 *
 * `each(errors, runs)` gets, after every run, errors[name][b] for the budgets: arrays of so many
 * runs.
 */
export function errorRuns(target, weights, y, theta, {estimators, budgets, runs, seed}, each) {
    const densities = at(weights, y, theta), mu = truth(target, y, theta), unit = mu || 1
    const plans = estimators.map(({name, table}) =>
        ({name, table, counts: budgets.map(total => split(table, densities, total))}))
    const most = [0, 1, 2].map(j =>
        Math.max(...plans.flatMap(({counts}) => counts.map(count => count[j]))))
    const errors = Object.fromEntries(plans.map(({name}) => [name, budgets.map(() => [])]))
    for (let run = 0; run < runs; run++) {
        const made = drawn(target, densities, y, theta, most, uniforms(seed + STRIDE * (run + 1)))
        for (const {name, table, counts} of plans) {
            counts.forEach((count, b) => {
                errors[name][b].push(((estimate(table, made, count) - mu) / unit) ** 2)
            })
        }
        each(errors, run + 1)
    }
}

// The problems that a page can answer by itself, in closed form: `amci_core.models` of tail-1d and
// gain-loss, where x ~ N(0, 1) and y | x ~ N(x, 1). A target has
//
//   f(x, theta)         its value at the number x
//   logParts(y, theta)  log of E[f_plus | y] and, where f takes both signs, of E[f_minus | y]
//   mu(y, theta)        where f takes both signs, the truth: their difference would lose digits
//   mismatch(y, theta)  KL(g || p(x | y)) in nats, g proportional to |f| p(x | y)
//   deviation(y, theta) E|f - mu| under the posterior
//   path(y, theta, t)   where the mismatch's handle leads theta, for t from 0 to 1

import {increasingRoot, logMeanExcess, logNormal, logSurvival} from "./special.mjs"

// The posterior is N(y / 2, 1 / 2).
const SCALE = Math.SQRT1_2
const mean = y => y[0] / 2
// The threshold, or the price, in standard deviations from the mean.
const edge = (y, theta) => (theta[0] - mean(y)) / SCALE

/** log p(x | y). */
export const logPosterior = (x, y) => logNormal((x - mean(y)) / SCALE) - Math.log(SCALE)

const TAIL = {
    f: (x, theta) => (x > theta[0] ? 1 : 0),
    logParts: (y, theta) => [logSurvival(edge(y, theta))],
    mismatch: (y, theta) => -logSurvival(edge(y, theta)),
    deviation: (y, theta) =>
        2 * Math.exp(logSurvival(edge(y, theta)) + logSurvival(-edge(y, theta))),
    path: (y, theta, t) => 5 * t, // thresholds from 0 to 5
}

// Standard deviations that the mismatch's integral covers beyond the mean, and its points.
const REACH = 12, POINTS = 400
const PRICES = [-3, 3]

const GAIN_LOSS = {
    mu: (y, theta) => mean(y) - theta[0],
    f: (x, theta) => x - theta[0],
    logParts: (y, theta) =>
        [1, -1].map(sign => logMeanExcess(sign * edge(y, theta)) + Math.log(SCALE)),
    mismatch: (y, theta) => {
        // E_g[log|f|] - log E|f|, and the scale cancels. The density of t = |z - a| is
        // phi(a + t) + phi(a - t); points crowd at t = 0, where the logarithm is singular.
        const a = edge(y, theta), longest = Math.abs(a) + REACH
        let total = 0, sum = 0
        for (let i = 0; i < POINTS; i++) {
            const share = (i + 0.5) / POINTS, t = longest * share * share
            const density = Math.exp(logNormal(a + t)) + Math.exp(logNormal(a - t))
            const mass = density * t * 2 * longest * share / POINTS
            total += mass
            sum += mass * Math.log(t)
        }
        return Math.max(sum / total - Math.log(total), 0)
    },
    deviation: () => SCALE * Math.sqrt(2 / Math.PI),
    path: (y, theta, t) => {
        // From the end of the prices on this side of the mean to the mean.
        const [low, high] = PRICES, top = Math.min(Math.max(mean(y), low), high)
        const start = (theta[0] < top || top >= high) && top > low ? low : high
        return start + t * (top - start)
    },
}

/** The targets by the names of their problems. */
export const TARGETS = {"tail-1d": TAIL, "gain-loss": GAIN_LOSS}

/** The truth mu(y, theta), in units of f. */
export const truth = (target, y, theta) =>
    target.mu ? target.mu(y, theta) : Math.exp(target.logParts(y, theta)[0])

/** The mismatch in nats at both ends of the path through y and theta. */
export const mismatchRange = (target, y, theta) =>
    [0, 1].map(t => target.mismatch(y, [target.path(y, theta, t)]))

/** The theta of the path where the mismatch has that level, or the nearer end. */
export function atMismatch(target, level, y, theta) {
    const excess = t => target.mismatch(y, [target.path(y, theta, t)]) - level
    return [target.path(y, theta, increasingRoot(excess, 0, 1))]
}

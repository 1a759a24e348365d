// The problems that a page can answer by itself, in closed form: `amci_core.models` of tail-1d,
// gain-loss and peak. A target has
//
//   dim                number of coordinates of x
//   signed             whether f takes both signs
//   f(x, theta)        its value at the point x
//   logPosterior(x, y) log p(x | y), normalized
//   logParts(y, theta) log of E[f_plus | y] and, where f is signed, of E[f_minus | y]
//   mu(y, theta)       where f is signed, the truth: their difference would lose digits
//   mismatch(y, theta) KL(g || p(x | y)) in nats, g proportional to |f| p(x | y)
//   deviation(y, theta) E|f - mu| under the posterior
//   window(y, theta)   on the line: an interval that holds the posterior and g
//   path(y, theta, t)  where the mismatch's handle leads, for t from 0 to 1: [y, theta]

import {gaussLegendre, increasingRoot, logMeanExcess, logNormal, logSurvival} from "./special.mjs"

// x ~ N(0, 1) and y | x ~ N(x, 1): the posterior is N(y / 2, 1 / 2).
const SCALE = Math.SQRT1_2
const mean = y => y[0] / 2
const logPosterior = ([x], y) => logNormal((x - mean(y)) / SCALE) - Math.log(SCALE)
// The threshold, or the price, in standard deviations from the mean.
const edge = (y, theta) => (theta[0] - mean(y)) / SCALE
const window = (y, theta) =>
    [Math.min(mean(y), theta[0]) - 8 * SCALE, Math.max(mean(y), theta[0]) + 8 * SCALE]

const TAIL = {
    dim: 1,
    signed: false,
    f: ([x], theta) => (x > theta[0] ? 1 : 0),
    logPosterior,
    window,
    logParts: (y, theta) => [logSurvival(edge(y, theta))],
    mismatch: (y, theta) => -logSurvival(edge(y, theta)),
    deviation: (y, theta) =>
        2 * Math.exp(logSurvival(edge(y, theta)) + logSurvival(-edge(y, theta))),
    path: (y, theta, t) => [y, [5 * t]], // thresholds from 0 to 5
}

// Standard deviations that the mismatch's integral covers beyond the mean, and its nodes.
const REACH = 12, NODES = 192
const PRICES = [-3, 3]

const GAIN_LOSS = {
    dim: 1,
    signed: true,
    mu: (y, theta) => mean(y) - theta[0],
    f: ([x], theta) => x - theta[0],
    logPosterior,
    window,
    logParts: (y, theta) =>
        [1, -1].map(sign => logMeanExcess(sign * edge(y, theta)) + Math.log(SCALE)),
    mismatch: (y, theta) => {
        // E_g[log|f|] - log E|f|, and the scale cancels. The density of t = |z - a| is
        // phi(a + t) + phi(a - t); nodes crowd at t = 0, where the logarithm is singular.
        const a = edge(y, theta), longest = Math.abs(a) + REACH
        const {nodes, weights} = gaussLegendre(NODES)
        let total = 0, sum = 0
        for (let i = 0; i < NODES; i++) {
            const share = (nodes[i] + 1) / 2, t = longest * share * share
            const density = Math.exp(logNormal(a + t)) + Math.exp(logNormal(a - t))
            const mass = density * t * longest * share * weights[i]
            total += mass
            sum += mass * Math.log(t)
        }
        return Math.max(sum / total - Math.log(total), 0)
    },
    deviation: () => SCALE * Math.sqrt(2 / Math.PI),
    path: (y, theta, t) => {
        // From the end of the prices on this side of the mean to the mean.
        const [low, high] = PRICES
        const top = Math.min(Math.max(mean(y), low), high)
        const below = theta[0] < top || top >= high
        const start = below && top > low ? low : high
        return [y, [start + t * (top - start)]]
    },
}

// Of the peak's quadratures.
const PEAK_NODES = 400
const sharpness = theta => 10 ** (2 * theta[2])
// arctan(a (x - u)) at both ends of the unit interval, for each coordinate.
const angles = theta => [0, 1].map(d =>
    [0, 1].map(x => Math.atan(sharpness(theta) * (x - theta[d]))))

const PEAK = {
    dim: 2,
    signed: false,
    f: (x, theta) => {
        const a = sharpness(theta)
        return 1 / ((1 + (a * (x[0] - theta[0])) ** 2) * (1 + (a * (x[1] - theta[1])) ** 2))
    },
    logPosterior: x => (x.every(v => v >= 0 && v <= 1) ? 0 : -Infinity),
    logParts: (y, theta) => [angles(theta).reduce(
        (sum, [low, high]) => sum + Math.log((high - low) / sharpness(theta)), 0)],
    mismatch: (y, theta) => {
        // E_g[log f] - log mu; in the angle, g is uniform and log f is 2 log cos.
        const {nodes, weights} = gaussLegendre(PEAK_NODES)
        let sum = -PEAK.logParts(y, theta)[0]
        for (const [low, high] of angles(theta)) {
            nodes.forEach((node, i) => {
                sum += weights[i] * Math.log(Math.cos((low + high + (high - low) * node) / 2))
            })
        }
        return Math.max(sum, 0)
    },
    deviation: (y, theta) => {
        // E|f - mu| = 2 E(f - mu)_+. At a given x_1 with height h, f > mu where
        // |x_2 - u_2| < sqrt(h / mu - 1) / a: the inner integral is in closed form, the outer one
        // a quadrature in the angle of x_1.
        const a = sharpness(theta), mu = Math.exp(PEAK.logParts(y, theta)[0])
        const [first, second] = angles(theta), reach = h => Math.atan(Math.sqrt(Math.max(h, 0)))
        const widest = reach(1 / mu - 1)
        const start = Math.max(first[0], -widest), stop = Math.min(first[1], widest)
        const {nodes, weights} = gaussLegendre(PEAK_NODES)
        let sum = 0
        nodes.forEach((node, i) => {
            const height = Math.cos((start + stop + (stop - start) * node) / 2) ** 2
            const far = reach(height / mu - 1)
            const left = Math.max(second[0], -far), right = Math.min(second[1], far)
            const above = height * (right - left) - mu * (Math.tan(right) - Math.tan(left))
            sum += above * (stop - start) / 2 * weights[i] / height
        })
        return 2 * sum / a ** 2
    },
    path: (y, theta, t) => [y, [theta[0], theta[1], t]],
}

/** The targets by the names of their problems. */
export const TARGETS = {"tail-1d": TAIL, "gain-loss": GAIN_LOSS, peak: PEAK}

/** The truth mu(y, theta), in units of f. */
export const truth = (target, y, theta) =>
    target.mu ? target.mu(y, theta) : Math.exp(target.logParts(y, theta)[0])

/** log g at x, for the side of f with that sign: f_plus or f_minus times p(x | y), normalized. */
export function logWanted(target, x, y, theta, sign = 1) {
    const part = sign * target.f(x, theta)
    if (!(part > 0)) { return -Infinity }
    return Math.log(part) + target.logPosterior(x, y) - target.logParts(y, theta)[sign > 0 ? 0 : 1]
}

/** The mismatch in nats at both ends of the path through y and theta. */
export const mismatchRange = (target, y, theta) =>
    [0, 1].map(t => target.mismatch(...target.path(y, theta, t)))

/** The point [y, theta] of the path where the mismatch has that level, or the nearer end. */
export function atMismatch(target, level, y, theta) {
    const excess = t => target.mismatch(...target.path(y, theta, t)) - level
    return target.path(y, theta, increasingRoot(excess, 0, 1))
}

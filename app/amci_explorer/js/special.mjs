// Functions of a standard normal, quadrature and root finding: what targets and proposals need.

const LOG_2PI = Math.log(2 * Math.PI)

/** log of the standard normal density at z. */
export const logNormal = z => -0.5 * (z * z + LOG_2PI)

/** log(1 + exp x). */
export const softplus = x => (x > 30 ? x + Math.exp(-x) : Math.log1p(Math.exp(x)))

/** 1 / (1 + exp -x). */
export const sigmoid = x => (x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x)))

/** log(exp a + exp b). */
export const logAdd = (a, b) => Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)))

/** log(1 - Phi(z)): a continued fraction in the tail, a series in the middle. */
export function logSurvival(z) {
    if (z < -3) { return Math.log1p(-Math.exp(logSurvival(-z))) }
    if (z > 3) {
        let fraction = z
        for (let k = 80; k > 0; k--) { fraction = z + k / fraction }
        return logNormal(z) - Math.log(fraction)
    }
    // Phi(z) - 1/2 = phi(z) (z + z^3 / 3 + z^5 / 15 + ...)
    let term = z, sum = z
    for (let k = 3; Math.abs(term) > 1e-18 * Math.abs(sum); k += 2) {
        term *= z * z / k
        sum += term
    }
    return Math.log(0.5 - Math.exp(logNormal(z)) * sum)
}

/** log E[(z - a)_+] of a standard normal z: log(phi(a) - a (1 - Phi(a))). */
export function logMeanExcess(a) {
    // Through Mills' ratio where a > 0: the difference would lose its digits.
    if (a > 0) { return logNormal(a) + Math.log1p(-a * Math.exp(logSurvival(a) - logNormal(a))) }
    return a == 0 ? logNormal(0) : logAdd(logNormal(a), Math.log(-a) + logSurvival(a))
}

const BODY = [
    [-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.3577518672690,
        -30.66479806614716, 2.506628277459239],
    [-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972,
        -13.28068155288572, 1],
]
const TAIL = [
    [-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734,
        4.374664141464968, 2.938163982698783],
    [0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1],
]
const horner = (coefficients, t) => coefficients.reduce((sum, c) => sum * t + c, 0)

/** The z with Phi(z) = p, for 0 < p < 1: Acklam's approximation and two steps of Newton. */
export function normalQuantile(p) {
    if (p > 0.5) { return -normalQuantile(1 - p) }
    const t = p < 0.02425 ? Math.sqrt(-2 * Math.log(p)) : (p - 0.5) ** 2
    let z = p < 0.02425
        ? horner(TAIL[0], t) / horner(TAIL[1], t)
        : (p - 0.5) * horner(BODY[0], t) / horner(BODY[1], t)
    for (let step = 0; step < 2; step++) {
        z += (p - Math.exp(logSurvival(-z))) / Math.exp(logNormal(z))
    }
    return z
}

const rules = new Map()

/** Nodes and weights of Gauss and Legendre's rule on [-1, 1]. */
export function gaussLegendre(count) {
    if (!rules.has(count)) { rules.set(count, legendreRule(count)) }
    return rules.get(count)
}

function legendreRule(count) {
    const nodes = new Float64Array(count), weights = new Float64Array(count)
    for (let i = 0; i < count; i++) {
        let x = Math.cos(Math.PI * (i + 0.75) / (count + 0.5)), slope = 1, step = 1
        while (Math.abs(step) > 1e-15) {
            let before = 1, value = x
            for (let k = 2; k <= count; k++) {
                [before, value] = [value, ((2 * k - 1) * x * value - (k - 1) * before) / k]
            }
            slope = count * (x * value - before) / (x * x - 1)
            step = value / slope
            x -= step
        }
        nodes[i] = x
        weights[i] = 2 / ((1 - x * x) * slope * slope)
    }
    return {nodes, weights}
}

/** Where an increasing function of [low, high] is zero; the nearer end where it is nowhere. */
export function increasingRoot(f, low, high) {
    if (f(low) >= 0) { return low }
    if (f(high) <= 0) { return high }
    for (let step = 0; step < 44; step++) {
        const middle = (low + high) / 2
        if (f(middle) < 0) { low = middle } else { high = middle }
    }
    return (low + high) / 2
}

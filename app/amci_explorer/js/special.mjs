// Functions of a standard normal and root finding: what targets and proposals need.

const LOG_2PI = Math.log(2 * Math.PI)

/** log of the standard normal density at z. */
export const logNormal = z => -0.5 * (z * z + LOG_2PI)

/** log(1 + exp x). */
export const softplus = x => (x > 30 ? x + Math.exp(-x) : Math.log1p(Math.exp(x)))

/** 1 / (1 + exp -x). */
export const sigmoid = x => (x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x)))

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
export const logMeanExcess = a =>
    logNormal(a) + Math.log1p(-a * Math.exp(logSurvival(a) - logNormal(a)))

/** The z with Phi(z) = p, for 0 < p < 1: Abramowitz and Stegun's 26.2.23 and steps of Newton. */
export function normalQuantile(p) {
    if (p > 0.5) { return -normalQuantile(1 - p) }
    const t = Math.sqrt(-2 * Math.log(p))
    let z = (2.515517 + t * (0.802853 + t * 0.010328))
        / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t
    for (let step = 0; step < 3; step++) {
        z += (p - Math.exp(logSurvival(-z))) / Math.exp(logNormal(z))
    }
    return z
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

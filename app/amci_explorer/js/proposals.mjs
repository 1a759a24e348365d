// Learnt proposals on the line, evaluated in the page in double precision: the conditioner and the
// supports of `amci_core.flows`. `amci_explorer.numbers.weights` writes what this reads, and a
// browser test holds it to `amci_core` within 1e-6.

import {logNormal, normalQuantile, sigmoid, softplus} from "./special.mjs"
import {spline} from "./spline.mjs"

const WITHIN = 1.5 // up to here the networks read scaled inputs as they are
const CENTRE = -0.9, SPREAD = 1.7 // limits of the log scale on a half-line
const LOGISTIC = 0.5
const BELOW_ONE = 1 - 2 ** -53

/** A stored proposal with its weights as numbers, for `proposalAt`; to be done once. */
export function decoded(stored) {
    const numbers = text =>
        new Float32Array(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer)
    const layers = stored.layers.map(
        ({weight, bias}) => ({weight: numbers(weight), bias: numbers(bias)}))
    return {...stored, layers}
}

/** The parameters that a multilayer perceptron with SiLU makes of y and theta. */
function parametersAt({centre, halfWidth, layers}, read) {
    // Inputs are scaled to about [-1, 1], and read by their logarithm far outside.
    const inputs = read.map((value, i) => {
        const scaled = (value - centre[i]) / halfWidth[i]
        const beyond = Math.max(Math.abs(scaled), WITHIN) - WITHIN
        return Math.sign(scaled) * (Math.min(Math.abs(scaled), WITHIN) + Math.log1p(beyond))
    })
    return layers.reduce((values, {weight, bias}, i) => {
        const width = values.length
        const out = Float64Array.from(bias, (start, row) => {
            let sum = start
            for (let j = 0; j < width; j++) { sum += weight[row * width + j] * values[j] }
            return sum
        })
        return i < layers.length - 1 ? out.map(v => v * sigmoid(v)) : out
    }, Float64Array.from(inputs))
}

// How the unit interval is carried to a half-line, where `excess` is the distance from its bound in
// units of a scale. `cumulative` gives u and log|du / d excess|, `inverse` the excess and
// log|d excess / du|.
const SUPPORTS = {
    "half-line": () => ({
        cumulative: excess => [Math.exp(-excess), -excess],
        inverse: u => [-Math.log(u), -Math.log(u)],
    }),
    "soft-half-line": shift => ({
        cumulative: excess => {
            const inner = excess + Math.log(-Math.expm1(-excess)), z = (inner - shift) / LOGISTIC
            return [sigmoid(-z), z - 2 * softplus(z) - Math.log(LOGISTIC) + softplus(-inner)]
        },
        inverse: u => {
            const below = Math.min(u, BELOW_ONE), odds = Math.log1p(-below) - Math.log(below)
            const inner = shift + LOGISTIC * odds
            const logDet = Math.log(LOGISTIC) - softplus(-inner) + odds - 2 * Math.log1p(-below)
            return [softplus(inner), logDet]
        },
    }),
}

/**
 * A proposal at one y and theta, arrays of numbers.
 *
 * `logProb(x)` is log q in nats at the number x, -Infinity outside the support; `draw(u)` makes of
 * a uniform number in (0, 1] a point and its log q.
 */
export function proposalAt(stored, y, theta) {
    const read = [...(stored.readsY ? y : []), ...(stored.readsTheta ? theta : [])]
    const parameters = parametersAt(stored, read), {family, kind, bins, sign} = stored
    if (family == "gaussian") { return gaussian(...parameters) }
    const free = parameters.slice(3 * bins + 1), bent = spline(parameters, bins)
    const support = SUPPORTS[kind](free[0])
    const logScale = CENTRE + SPREAD * Math.tanh(free.at(-1) / SPREAD), scale = Math.exp(logScale)
    return {
        logProb: x => {
            const excess = sign * (x - theta[0]) / scale
            if (!(excess > 0)) { return -Infinity }
            const [u, log] = support.cumulative(excess)
            return log - logScale + bent.inverse(u)[1]
        },
        draw: u => {
            const [v, logBent] = bent.forward(u), [excess, log] = support.inverse(v)
            return [theta[0] + sign * scale * excess, -logBent - log - logScale]
        },
    }
}

function gaussian(shift, logScale) {
    const scale = Math.exp(logScale)
    return {
        logProb: x => logNormal((x - shift) / scale) - logScale,
        draw: u => {
            const z = normalQuantile(Math.min(u, BELOW_ONE))
            return [shift + scale * z, logNormal(z) - logScale]
        },
    }
}

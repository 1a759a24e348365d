// Learnt proposals, evaluated in the page in double precision: the conditioner and the spline of
// `amci_core.flows`, on the line and on the unit square. `amci_explorer.numbers.weights` writes what this reads, and
// a browser test holds it to `amci_core` within 1e-6.

import {logNormal, normalQuantile, sigmoid, softplus} from "./special.mjs"
import {Spline} from "./spline.mjs"

const WITHIN = 1.5 // up to here the networks read scaled inputs as they are
const CENTRE = -0.9, SPREAD = 1.7 // limits of the log scale on a half-line
const LOGISTIC = 0.5
const BELOW_ONE = 1 - 2 ** -53

/** Numbers out of base64: little-endian floats of so many bits. */
function numbers(text, bits) {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0))
    return Float64Array.from(new (bits == 32 ? Float32Array : Float64Array)(bytes.buffer))
}

/** A stored proposal with its weights as numbers, for `proposalAt`; to be done once. */
export function decoded(stored) {
    const layer = ({weight, bias}) => ({
        weight: numbers(weight, stored.bits), bias: numbers(bias, stored.bits),
    })
    return {...stored, networks: stored.networks.map(layers => layers.map(layer))}
}

/** Inputs as a network reads them: scaled to about [-1, 1], by their logarithm far outside. */
function scaled({centre, halfWidth}, values) {
    return values.map((value, i) => {
        const read = (value - centre[i]) / halfWidth[i]
        const beyond = Math.max(Math.abs(read), WITHIN) - WITHIN
        return Math.sign(read) * (Math.min(Math.abs(read), WITHIN) + Math.log1p(beyond))
    })
}

/** weight values + bias. */
function linear({weight, bias}, values) {
    const width = values.length, out = Float64Array.from(bias)
    // Four rows at a time: each sum has to wait for its own last addition.
    const blocks = out.length - out.length % 4
    for (let row = 0; row < blocks; row += 4) {
        let first = out[row], second = out[row + 1], third = out[row + 2], fourth = out[row + 3]
        for (let i = 0, at = row * width; i < width; i++, at++) {
            const value = values[i]
            first += weight[at] * value
            second += weight[at + width] * value
            third += weight[at + 2 * width] * value
            fourth += weight[at + 3 * width] * value
        }
        out[row] = first
        out[row + 1] = second
        out[row + 2] = third
        out[row + 3] = fourth
    }
    for (let row = blocks; row < out.length; row++) {
        for (let i = 0; i < width; i++) { out[row] += weight[row * width + i] * values[i] }
    }
    return out
}

/** A multilayer perceptron with SiLU; each layer has a weight, row by row, and a bias. */
function network(layers, inputs) {
    return layers.reduce((values, layer, i) => {
        const out = linear(layer, values)
        return i < layers.length - 1 ? out.map(v => v * sigmoid(v)) : out
    }, Float64Array.from(inputs))
}

// Kinds of coordinates: how the unit interval is carried to where a coordinate lives. `cumulative`
// gives u and log|du / dx|, or null outside; `draw` gives x and log|dx / du|.
const logScaleOf = free => CENTRE + SPREAD * Math.tanh(free / SPREAD)
const KINDS = {
    unit: () => ({
        cumulative: x => (x < 0 || x > 1 ? null : [x, 0]),
        draw: u => [u, 0],
    }),
    "half-line": ([free], {bound, sign}) => {
        const logScale = logScaleOf(free), scale = Math.exp(logScale)
        return {
            cumulative: x => {
                const excess = sign * (x - bound) / scale
                return excess > 0 ? [Math.exp(-excess), -excess - logScale] : null
            },
            draw: u => [bound - sign * scale * Math.log(u), logScale - Math.log(u)],
        }
    },
    "soft-half-line": ([shift, free], {bound, sign}) => {
        const logScale = logScaleOf(free), scale = Math.exp(logScale)
        const logWidth = Math.log(LOGISTIC) + logScale
        return {
            cumulative: x => {
                const excess = sign * (x - bound) / scale
                if (!(excess > 0)) { return null }
                const inner = excess + Math.log(-Math.expm1(-excess))
                const z = (inner - shift) / LOGISTIC
                return [sigmoid(-z), z - 2 * softplus(z) - logWidth + softplus(-inner)]
            },
            draw: u => {
                const logU = Math.log(Math.min(u, BELOW_ONE))
                const logRest = Math.log1p(-Math.min(u, BELOW_ONE))
                const inner = shift + LOGISTIC * (logRest - logU)
                const logDet = logWidth - softplus(-inner) - logU - logRest
                return [bound + sign * scale * softplus(inner), logDet]
            },
        }
    },
}

/**
 * A proposal at one y and theta, arrays of numbers.
 *
 * `logProb(x)` is log q in nats at the point x, -Infinity outside the support; `draw(u)` makes of
 * uniform numbers in (0, 1], one a coordinate, a point and its log q.
 */
export function proposalAt(stored, y, theta) {
    const read = [...(stored.readsY ? y : []), ...(stored.readsTheta ? theta : [])]
    const inputs = scaled(stored, read)
    return stored.family == "gaussian"
        ? gaussianAt(network(stored.networks[0], inputs))
        : splineAt(stored, inputs, {bound: theta[0], sign: stored.sign})
}

function gaussianAt([shift, logScale]) {
    const scale = Math.exp(logScale)
    return {
        logProb: ([x]) => logNormal((x - shift) / scale) - logScale,
        draw: ([u]) => {
            const z = normalQuantile(Math.min(u, BELOW_ONE))
            return [[shift + scale * z], logNormal(z) - logScale]
        },
    }
}

function splineAt({coordinates, networks, bins}, inputs, half) {
    const factor = (i, preceding) => {
        const lines = preceding.map((x, j) => (x - coordinates[j].centre) / coordinates[j].scale)
        const parameters = network(networks[i], [...inputs, ...lines])
        const support = KINDS[coordinates[i].kind](parameters.slice(3 * bins + 1), half)
        return {spline: new Spline(parameters, bins), support}
    }
    const first = factor(0, [])
    // The points of a grid share first coordinates; the network reads each once.
    let last = {x: NaN}
    const at = (i, x) => {
        if (i == 0) { return first }
        if (i == 1) {
            if (last.x !== x[0]) { last = {x: x[0], ...factor(1, [x[0]])} }
            return last
        }
        return factor(i, x.slice(0, i))
    }
    return {
        logProb: x => {
            let total = 0
            for (let i = 0; i < x.length; i++) {
                const {spline, support} = at(i, x)
                const found = support.cumulative(x[i])
                if (found == null) { return -Infinity }
                total += found[1] + spline.inverse(found[0])[1]
            }
            return total
        },
        draw: u => {
            const x = []
            let total = 0
            for (let i = 0; i < u.length; i++) {
                const {spline, support} = at(i, x)
                const [bent, logBent] = spline.forward(u[i])
                const [point, logDet] = support.draw(bent)
                total -= logBent + logDet
                x.push(point)
            }
            return [x, total]
        },
    }
}

// Monotone rational-quadratic splines of the unit interval: `amci_core.flows.spline`.

import {softplus} from "./special.mjs"

const SMALLEST = 1e-4 // width, height and derivative of a bin
const IDENTITY = Math.log(Math.expm1(1 - SMALLEST))
const LARGEST_EXPONENT = 80

const lerp = (a, b, t) => a + (b - a) * t

/**
 * A spline out of a network's parameters.
 *
 * `forward(u)` gives its value at u and log|d value / du|, `inverse(value)` the point that goes to
 * a value and log|d point / d value|.
 */
export function spline(parameters, bins) {
    const edges = start => {
        const sizes = parameters.slice(start, start + bins).map(size =>
            Math.exp(Math.min(Math.max(size, -LARGEST_EXPONENT), LARGEST_EXPONENT)))
        const whole = sizes.reduce((sum, size) => sum + size)
        let sum = 0
        const inner = Array.from(sizes.slice(0, -1), (size, i) => {
            sum += size
            return sum / whole * (1 - SMALLEST * bins) + SMALLEST * (i + 1)
        })
        return [0, ...inner, 1]
    }
    const x = edges(0), y = edges(bins)
    const derivative = i => SMALLEST + softplus(parameters[2 * bins + i] + IDENTITY)
    const binOf = (along, value) => {
        const i = Math.max(along.findLastIndex((edge, k) => k < bins && value >= edge), 0)
        const width = x[i + 1] - x[i], height = y[i + 1] - y[i], slope = height / width
        const first = derivative(i), last = derivative(i + 1)
        return {left: x[i], width, bottom: y[i], height, slope, first, last,
            bend: first + last - 2 * slope}
    }
    return {
        forward(u) {
            const bin = binOf(x, u), t = (u - bin.left) / bin.width
            const denominator = bin.slope + bin.bend * (t - t * t)
            const share = t * lerp(bin.first, bin.slope, t) / denominator
            return [bin.bottom + bin.height * share, logDerivative(bin, t)]
        },
        inverse(value) {
            const bin = binOf(y, value), rise = value - bin.bottom
            // The positive root of a t^2 + b t = c, in the form without cancellation.
            const b = bin.first - rise / bin.height * bin.bend
            const a = bin.slope - b, c = rise / bin.width
            const root = Math.sqrt(Math.max(b * b + 4 * a * c, 0))
            const t = Math.min(Math.max(2 * c / (b + root), 0), 1)
            return [bin.left + t * bin.width, -logDerivative(bin, t)]
        },
    }
}

function logDerivative({slope, first, last, bend}, t) {
    const numerator = lerp(lerp(first, slope, t), lerp(slope, last, t), t)
    return Math.log(numerator * (slope / (slope + bend * (t - t * t))) ** 2)
}

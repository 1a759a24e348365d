// Monotone rational-quadratic splines of the unit interval: `amci_core.flows.spline`.

import {softplus} from "./special.mjs"

const SMALLEST = 1e-4 // width, height and derivative of a bin
const IDENTITY = Math.log(Math.expm1(1 - SMALLEST))
const LARGEST_EXPONENT = 80

const lerp = (a, b, t) => a + (b - a) * t

/** A monotone rational-quadratic spline of the unit interval, out of a network's parameters. */
export class Spline {
    constructor(parameters, bins) {
        const edges = start => {
            const sizes = parameters.slice(start, start + bins).map(size =>
                Math.exp(Math.min(Math.max(size, -LARGEST_EXPONENT), LARGEST_EXPONENT)))
            const whole = sizes.reduce((sum, size) => sum + size)
            const found = new Float64Array(bins + 1)
            let sum = 0
            for (let i = 1; i < bins; i++) {
                sum += sizes[i - 1]
                found[i] = sum / whole * (1 - SMALLEST * bins) + SMALLEST * i
            }
            found[bins] = 1
            return found
        }
        this.bins = bins
        this.x = edges(0)
        this.y = edges(bins)
        this.free = parameters.subarray(2 * bins, 3 * bins + 1)
    }

    derivative(i) { return SMALLEST + softplus(this.free[i] + IDENTITY) }

    bin(edges, value) {
        let low = 0, high = this.bins
        while (high - low > 1) {
            const middle = (low + high) >> 1
            if (value >= edges[middle]) { low = middle } else { high = middle }
        }
        const left = this.x[low], width = this.x[low + 1] - left
        const bottom = this.y[low], height = this.y[low + 1] - bottom
        const slope = height / width
        const first = this.derivative(low), last = this.derivative(low + 1)
        return {left, width, bottom, height, slope, first, last, bend: first + last - 2 * slope}
    }

    /** The value at u, and log|d value / du|. */
    forward(u) {
        const bin = this.bin(this.x, u), t = (u - bin.left) / bin.width
        const denominator = bin.slope + bin.bend * (t - t * t)
        const share = t * lerp(bin.first, bin.slope, t) / denominator
        return [bin.bottom + bin.height * share, logDerivative(bin, t)]
    }

    /** The point that goes to a value, and log|d point / d value|. */
    inverse(value) {
        const bin = this.bin(this.y, value), rise = value - bin.bottom
        // The positive root of a t^2 + b t = c, in the form without cancellation.
        const b = bin.first - rise / bin.height * bin.bend
        const a = bin.slope - b, c = rise / bin.width
        const root = Math.sqrt(Math.max(b * b + 4 * a * c, 0))
        const t = Math.min(Math.max(2 * c / (b + root), 0), 1)
        return [bin.left + t * bin.width, -logDerivative(bin, t)]
    }
}

function logDerivative({slope, first, last, bend}, t) {
    const numerator = lerp(lerp(first, slope, t), lerp(slope, last, t), t)
    return Math.log(numerator * (slope / (slope + bend * (t - t * t))) ** 2)
}

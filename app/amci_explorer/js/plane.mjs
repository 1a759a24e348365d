// What `amci_explorer.numbers.plane` computes for the peak, in the page: densities on a grid, and what the
// picture shows of them.

import {contour} from "./contours.mjs"
import {even, stepAbove} from "./grids.mjs"
import {proposalAt} from "./proposals.mjs"
import {LEVELS, WIDTHS} from "./shared.json"
import {TARGETS, logWanted} from "./targets.mjs"

// Points along an axis, and how many more as the peak gets sharper.
const POINTS = 25, MORE = 3

/**
 * A case of the peak on a grid as close as it is sharp.
 *
 * weights: stored proposals by name, out of `decoded`
 * problem: "peak"
 * y, theta: arrays of numbers
 *
 * It has the grid's `axes`, and on it, [i][j], the density `g` and `logQ`, log q1 in nats.
 */
export function planeCase(weights, problem, y, theta) {
    const a = 10 ** (2 * theta[2]), target = TARGETS[problem]
    const ends = [0, 1].map(d => [Math.asinh(-a * theta[d]), Math.asinh(a * (1 - theta[d]))])
    const count = POINTS + MORE * Math.ceil(Math.max(...ends.map(([low, high]) => high - low)))
    const axes = ends.map(([low, high], d) => even(low, high, count).map(v =>
        Math.min(Math.max(theta[d] + Math.sinh(v) / a, 0), 1)))
    const q1 = proposalAt(weights.q1_plus, y, theta)
    const onGrid = at => axes[0].map(first => axes[1].map(second => at([first, second])))
    return {
        axes,
        g: onGrid(x => Math.exp(logWanted(target, x, y, theta))),
        logQ: onGrid(x => q1.logProb(x)),
    }
}

/** Where g is above the lowest level: ends of a close-up, for either axis. */
export function closeUp({axes, g}) {
    const least = LEVELS[0] * Math.max(...g.flat())
    const high = [
        g.map(column => column.some(v => v > least)),
        axes[1].map((_, j) => g.some(column => column[j] > least)),
    ]
    return axes.map((points, d) => {
        const low = points[high[d].indexOf(true)], end = points[high[d].lastIndexOf(true)]
        const width = stepAbove(1.1 * (end - low), WIDTHS)
        const start = Math.min(Math.max((low + end - width) / 2, 0), 1 - width)
        return [start, start + width]
    })
}

/** Of each level the area of g between it and the next, as rings, and the lines of q1. */
export function areasAndLines({axes, g, logQ}) {
    const q1 = logQ.map(column => column.map(Math.exp)), highest = Math.max(...g.flat())
    // Beyond the border g is zero, so that every line closes.
    const wider = axes.map(points => [points[0], ...points, points[points.length - 1]])
    const nothing = wider[1].map(() => 0)
    const padded = [nothing, ...g.map(column => [0, ...column, 0]), nothing]
    const rings = LEVELS.map(share => contour(...wider, padded, share * highest))
    const least = Math.min(...g.flat()) / highest
    return {
        areas: rings.map((outer, i) =>
            (least < (LEVELS[i + 1] ?? 1) ? [...outer, ...(rings[i + 1] ?? [])] : [])),
        lines: LEVELS.map(share => contour(...axes, q1, share * highest)),
    }
}

// Where densities on the line lie, as `amci_explorer.numbers.grids` finds it.

/** So many points from one end to the other. */
export const even = (low, high, count) =>
    Array.from({length: count}, (_, i) => low + (high - low) * i / (count - 1))

/** Ends of the shortest interval that carries that share of a density at points x. */
export function densest(x, density, mass) {
    const below = [0]
    for (let i = 1; i < x.length; i++) {
        below.push(below[i - 1] + (density[i] + density[i - 1]) * (x[i] - x[i - 1]) / 2)
    }
    const total = below[below.length - 1]
    // Where the density is zero `below` is flat: there lies nothing of it.
    const first = x[density.findIndex(v => v > 0)]
    let best = [x[0], x[x.length - 1]], at = 0, end = 0
    for (const share of even(0, 1 - mass, 201)) {
        while (at < x.length - 2 && below[at + 1] < share * total) { at++ }
        while (end < x.length - 2 && below[end + 1] < (share + mass) * total) { end++ }
        const low = Math.max(within(x, below, at, share * total), first)
        const high = within(x, below, end, (share + mass) * total)
        if (high - low < best[1] - best[0]) { best = [low, high] }
    }
    return best
}

function within(x, below, i, wanted) {
    const rise = below[i + 1] - below[i]
    const share = rise > 0 ? (wanted - below[i]) / rise : 0
    return x[i] + Math.min(Math.max(share, 0), 1) * (x[i + 1] - x[i])
}

/** The least of the steps that is enough, or the largest. */
export const stepAbove = (wanted, steps) =>
    steps.find(step => step >= wanted) ?? steps[steps.length - 1]

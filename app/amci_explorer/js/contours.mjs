// Contour lines of a function on a grid, by marching squares.

/**
 * The lines where a function has a value: [[x, ...], [y, ...]] each, closed where they close.
 *
 * xs, ys: the grid's points along either axis
 * values: the function, values[i][j] at (xs[i], ys[j]); lines are straight between them
 */
export function contour(xs, ys, values, level) {
    // Where a line leaves a side of a cell it enters its neighbour's: sides by number.
    const rows = ys.length, neighbours = new Map()
    const along = (i, j) => 2 * (i * rows + j), up = (i, j) => along(i, j) + 1
    const link = (a, b) => {
        for (const [side, other] of [[a, b], [b, a]]) {
            if (neighbours.has(side)) { neighbours.get(side).push(other) }
            else { neighbours.set(side, [other]) }
        }
    }
    for (let i = 0; i + 1 < xs.length; i++) {
        const here = values[i], next = values[i + 1]
        for (let j = 0; j + 1 < rows; j++) {
            const above = [here[j], next[j], next[j + 1], here[j + 1]].map(v => v >= level)
            const [a, b, c, d] = above
            if (a == b && b == c && c == d) { continue }
            // Sides below, on the right, above, on the left.
            const crossed = []
            if (a != b) { crossed.push(along(i, j)) }
            if (b != c) { crossed.push(up(i + 1, j)) }
            if (c != d) { crossed.push(along(i, j + 1)) }
            if (d != a) { crossed.push(up(i, j)) }
            if (crossed.length == 2) { link(...crossed); continue }
            // A saddle: its middle goes with the corner below on the left, or does not.
            const middle = (here[j] + next[j] + next[j + 1] + here[j + 1]) / 4 >= level
            const [below, right, top, left] = crossed
            if (middle == a) { link(below, right); link(top, left) }
            else { link(below, left); link(right, top) }
        }
    }
    const point = side => {
        const k = side >> 1, i = Math.floor(k / rows), j = k % rows, isUp = side % 2
        const first = values[i][j], second = isUp ? values[i][j + 1] : values[i + 1][j]
        const share = Math.min(Math.max((level - first) / (second - first), 0), 1)
        return isUp
            ? [xs[i], ys[j] + share * (ys[j + 1] - ys[j])]
            : [xs[i] + share * (xs[i + 1] - xs[i]), ys[j]]
    }
    const lines = []
    const follow = start => {
        const line = [[], []]
        let side = start
        while (side != null) {
            const [x, y] = point(side), onward = neighbours.get(side)
            line[0].push(x)
            line[1].push(y)
            const next = onward.pop()
            if (next != null) {
                const back = neighbours.get(next)
                back.splice(back.indexOf(side), 1)
            }
            side = next
        }
        lines.push(line)
    }
    // Lines that end at the border first; what is left then closes.
    for (const [side, onward] of neighbours) { if (onward.length == 1) { follow(side) } }
    for (const [side, onward] of neighbours) { if (onward.length == 2) { follow(side) } }
    return lines
}

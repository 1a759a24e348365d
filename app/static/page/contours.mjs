// Contour lines of a function on a grid, by marching squares.

// Sides of a cell, by pairs of corners: (0, 0), (1, 0), (1, 1), (0, 1).
const SIDES = [[0, 1], [1, 2], [2, 3], [3, 0]]

/**
 * Pieces of the line where a function has that logarithm: [x, y, x, y] each.
 *
 * xs, ys: the grid's points along either axis
 * logs: logarithms of the function, logs[i][j] at (xs[i], ys[j])
 */
export function contour(xs, ys, logs, level) {
    const found = []
    for (let i = 0; i + 1 < xs.length; i++) {
        for (let j = 0; j + 1 < ys.length; j++) {
            const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]]
            const above = corners.map(([a, b]) => logs[a][b] - level)
            if (above.every(v => v >= 0) || above.every(v => v < 0)) { continue }
            const crossed = SIDES.filter(([a, b]) => above[a] >= 0 != above[b] >= 0)
            const points = crossed.map(([a, b]) => {
                const t = Math.min(Math.max(above[a] / (above[a] - above[b]), 0), 1)
                const [p, q] = [corners[a], corners[b]]
                return [
                    xs[p[0]] + t * (xs[q[0]] - xs[p[0]]), ys[p[1]] + t * (ys[q[1]] - ys[p[1]]),
                ]
            })
            for (let k = 0; k + 1 < points.length; k += 2) {
                found.push([...points[k], ...points[k + 1]])
            }
        }
    }
    return found
}

// Error curves in a worker, so that the page stays free: mean and quartiles of the runs so far.

import {errorRuns, quantile} from "../../js/estimates.mjs"
import {decoded} from "../../js/proposals.mjs"
import {TARGETS} from "../../js/targets.mjs"

const EVERY = 150 // milliseconds
// As `amci_core.evaluation.runs`: squared errors below are rounding.
const ROUNDING = 1e-20

/** What squared errors say, as `amci_core.evaluation.Curve` does. */
function summary(squares) {
    const sum = squares.reduce((all, v) => all + v, 0)
    const effective = sum * sum / squares.reduce((all, v) => all + v * v, 0)
    const least = Math.min(Math.max(squares.length / 4, 25), 200), mean = sum / squares.length
    const [low, median, high] = [0.25, 0.5, 0.75].map(share => quantile(squares, share))
    return {mean, low, median, high, determined: effective >= least || mean < ROUNDING}
}

self.onmessage = ({data}) => {
    const {weights, name, y, theta, plan} = data
    const stored = Object.fromEntries(
        Object.entries(weights).map(([key, each]) => [key, decoded(each)]))
    let last = performance.now()
    errorRuns(TARGETS[name], stored, y, theta, plan, (errors, runs) => {
        if (runs < plan.runs && performance.now() - last < EVERY) { return }
        last = performance.now()
        const curves = Object.fromEntries(Object.entries(errors).map(
            ([way, budgets]) => [way, budgets.map(summary)]))
        self.postMessage({runs, curves})
    })
}

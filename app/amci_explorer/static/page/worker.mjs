// Error curves in a worker, so that the page stays free: the means of the runs so far.

import {errorRuns} from "../../js/estimates.mjs"
import {decoded} from "../../js/proposals.mjs"
import {TARGETS} from "../../js/targets.mjs"

const EVERY = 150 // milliseconds

/** The mean of squared errors, and how well the runs determine it: `amci_explorer.words.curves.value`. */
function summary(squares) {
    const sum = squares.reduce((all, v) => all + v, 0), mean = sum / squares.length
    const effective = sum * sum / squares.reduce((all, v) => all + v * v, 0)
    const least = Math.min(Math.max(squares.length / 4, 25), 200)
    const exact = mean < 1e-20
    return {
        mean: Math.max(mean, 1e-18), determined: exact || effective >= least, rough: exact || effective >= 8,
    }
}

self.onmessage = ({data: {weights, name, y, theta, plan}}) => {
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

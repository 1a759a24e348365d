// Error curves in a worker, so that the page stays free: quartiles of the runs so far.

import {errorRuns, quantile} from "../../js/estimates.mjs"
import {decoded} from "../../js/proposals.mjs"
import {TARGETS} from "../../js/targets.mjs"

const SHARES = [0.25, 0.5, 0.75]
const EVERY = 150 // milliseconds

self.onmessage = ({data}) => {
    const {weights, name, y, theta, plan} = data
    const stored = Object.fromEntries(
        Object.entries(weights).map(([key, each]) => [key, decoded(each)]))
    let last = performance.now()
    errorRuns(TARGETS[name], stored, y, theta, plan, (errors, runs) => {
        if (runs < plan.runs && performance.now() - last < EVERY) { return }
        last = performance.now()
        const quartiles = Object.fromEntries(Object.entries(errors).map(([way, budgets]) =>
            [way, SHARES.map(share => budgets.map(values => quantile(values, share)))]))
        self.postMessage({runs, quartiles})
    })
}

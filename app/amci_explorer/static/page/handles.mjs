// The handles of the case: y, theta, and the mismatch, which moves theta along the problem's path.

import {TARGETS, atMismatch, mismatchRange} from "../../js/targets.mjs"
import {byId, element, number} from "./text.mjs"

const LEVEL = "Mismatch", LEVEL_STEP = 0.01

export class Handles {
    /** `moved` is called after a handle has changed the state, `released` when it is let go. */
    constructor(state, moved, released) {
        Object.assign(this, {state, moved, released})
    }

    /** Makes the handles of the state's problem. */
    open() {
        byId("handles").replaceChildren()
        this.inputs = this.state.problem.handles.map(({of, index, label, low, high, digits}) =>
            this.add(label, {min: low, max: high, step: 10 ** -digits}, value => {
                this.state[of][index] = value
            }))
        this.level = this.add(LEVEL, {min: 0, max: 1, step: LEVEL_STEP}, value => {
            const {name, y, theta} = this.state
            const [toY, toTheta] = atMismatch(TARGETS[name], value, y, theta)
            this.state.place({y: toY, theta: toTheta})
        })
    }

    add(label, ends, move) {
        const input = element("input", {type: "range", ...ends}), output = element("output")
        byId("handles").append(element("label", {class: "handle"}, label, input, output))
        input.setAttribute("aria-label", label)
        input.addEventListener("input", () => {
            move(Number(input.value))
            this.moved(input)
        })
        input.addEventListener("change", this.released)
        return {input, output}
    }

    /** Moves the handles to where the state is, but for the one that is held; gives the level. */
    show(held) {
        const {name, y, theta, problem} = this.state, target = TARGETS[name]
        problem.handles.forEach(({of, index, digits}, i) => {
            const value = this.state[of][index]
            this.place(this.inputs[i], value, held, value.toFixed(digits).replace("-", "−"))
        })
        const level = target.mismatch(y, theta), {input} = this.level
        if (input !== held) {
            // Ends on round steps; beyond the path's ends the nearer end is taken.
            const ends = mismatchRange(target, y, theta)
            input.min = Math.floor(Math.min(...ends) / LEVEL_STEP) * LEVEL_STEP
            input.max = Math.ceil(Math.max(...ends) / LEVEL_STEP) * LEVEL_STEP
        }
        this.place(this.level, level, held, `${number(level)} nats`)
        return level
    }

    place({input, output}, value, held, words) {
        if (input !== held) { input.value = value }
        output.textContent = words
        input.setAttribute("aria-valuetext", words)
    }
}

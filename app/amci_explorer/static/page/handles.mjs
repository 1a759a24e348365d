// The handles of the case: y, theta, and the mismatch, which moves theta along the problem's path.

import {TARGETS, atMismatch, mismatchRange} from "../../js/targets.mjs"
import {byId, element, number} from "./text.mjs"

const LEVEL = "Mismatch", LEVEL_STEP = 0.01

export class Handles {
    /** `moved` is called after a handle has changed the state, `released` when it is let go. */
    constructor(state, moved, released) {
        this.state = state
        this.moved = moved
        this.released = released
        this.count = 0
    }

    /** Makes the handles of the state's problem. */
    open() {
        const {handles} = this.state.problem
        this.inputs = handles.map(handle => {
            const step = 10 ** -handle.digits
            return this.add(handle.label, {min: handle.low, max: handle.high, step}, value => {
                this.state[handle.of][handle.index] = value
            })
        })
        this.level = this.add(LEVEL, {min: 0, max: 1, step: LEVEL_STEP}, value => {
            const {name, y, theta} = this.state
            const [toY, toTheta] = atMismatch(TARGETS[name], value, y, theta)
            this.state.place({y: toY, theta: toTheta})
        })
        byId("handles").replaceChildren(...[...this.inputs, this.level].map(each => each.row))
    }

    add(label, ends, move) {
        const id = `handle-${this.count++}`
        const input = element("input", {type: "range", id, ...ends})
        const output = element("output", {for: id})
        const name = element("label", {for: id}, label)
        const row = element("div", {class: "handle"}, name, input, output)
        input.addEventListener("input", () => {
            move(Number(input.value))
            this.moved(input)
        })
        input.addEventListener("change", this.released)
        return {row, input, output}
    }

    /** Moves the handles to where the state is; not the one under the finger. */
    show(held) {
        const {name, y, theta, problem} = this.state
        problem.handles.forEach((handle, i) => {
            const value = this.state[handle.of][handle.index]
            const words = value.toFixed(handle.digits).replace("-", "−")
            this.place(this.inputs[i], value, held, words)
        })
        const level = TARGETS[name].mismatch(y, theta)
        if (this.level.input !== held) {
            // Ends on round steps; beyond the path's ends the nearer end is taken.
            const ends = mismatchRange(TARGETS[name], y, theta)
            this.level.input.min = Math.floor(Math.min(...ends) / LEVEL_STEP) * LEVEL_STEP
            this.level.input.max = Math.ceil(Math.max(...ends) / LEVEL_STEP) * LEVEL_STEP
        }
        this.place(this.level, level, held, `${number(level)} nats`)
        return level
    }

    place({input, output}, value, held, words) {
        if (input !== held) { input.value = value }
        if (output.textContent != words) {
            output.textContent = words
            input.setAttribute("aria-valuetext", words)
        }
    }
}

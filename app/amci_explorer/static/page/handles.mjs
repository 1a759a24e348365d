// The handles of the case: y, theta, and the mismatch, which moves theta along the problem's path.

import {movedCase} from "../../js/live.mjs"
import {TARGETS, mismatchRange} from "../../js/targets.mjs"
import {byId, element, number} from "./text.mjs"

const LEVEL = {of: "level", index: 0, label: "Mismatch", low: 0, high: 1, digits: 2}

export class Handles {
    /** `moved` is called after a handle has changed the state, `released` when it is let go. */
    constructor(state, moved, released) {
        Object.assign(this, {state, moved, released})
    }

    /** Makes the handles of the state's problem. */
    open() {
        byId("handles").replaceChildren()
        this.handles = [...this.state.problem.handles, LEVEL].map(handle => this.add(handle))
    }

    add({of, index, label, low, high, digits}) {
        const input = element("input",
            {type: "range", "aria-label": label, min: low, max: high, step: 10 ** -digits})
        const output = element("output")
        byId("handles").append(element("label", {class: "handle"}, label, input, output))
        input.addEventListener("input", () => {
            const to = {variable: of, coordinate: index, value: Number(input.value)}
            this.state.place(movedCase({problem: this.state.name}, this.state, to))
            this.moved(input)
        })
        input.addEventListener("change", this.released)
        return {of, index, digits, input, output}
    }

    /** Moves the handles to where the state is, but for the one that is held; gives the level. */
    show(held) {
        const {name, y, theta} = this.state, level = TARGETS[name].mismatch(y, theta)
        for (const {of, index, digits, input, output} of this.handles) {
            const isLevel = of == "level", value = isLevel ? level : this.state[of][index]
            if (input !== held && isLevel) {
                // Ends on round steps; beyond the path's ends the nearer end is taken.
                const ends = mismatchRange(TARGETS[name], y, theta)
                input.min = Math.floor(100 * Math.min(...ends)) / 100
                input.max = Math.ceil(100 * Math.max(...ends)) / 100
            }
            if (input !== held) { input.value = value }
            output.textContent =
                isLevel ? `${number(level)} nats` : value.toFixed(digits).replace("-", "−")
            input.setAttribute("aria-valuetext", output.textContent)
        }
        return level
    }
}

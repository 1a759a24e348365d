// The tour: a step sets the handles, lights up a part of the page, or shows a stored picture.

import {Picture} from "./pictures.mjs"
import {byId} from "./text.mjs"

export class Tour {
    /** `chosen` is called after a step has changed the state. */
    constructor(state, chosen) {
        Object.assign(this, {state, chosen, steps: state.facts.steps})
        this.picture = new Picture(byId("stored-picture"))
        byId("tour").hidden = this.steps.length == 0
        byId("next").addEventListener("click", () => this.go(state.step + 1))
        byId("previous").addEventListener("click", () => this.go(state.step - 1))
    }

    /** Goes to a step, and sets what it says. */
    go(step) {
        const {problem, ...place} = this.steps[step].case
        if (problem != null) { this.state.open(problem) }
        this.state.place(place)
        this.state.step = step
        this.chosen()
    }

    /** Shows the state's step. */
    show() {
        const {steps, state: {step, live, name}} = this, told = steps[step]
        byId("previous").disabled = step <= 0
        byId("next").disabled = step + 1 >= steps.length
        byId("next").textContent = step < 0 ? "Start →" : "Next →"
        byId("place").textContent = step < 0 ? "" : `${step + 1} of ${steps.length}`
        byId("tour-title").textContent = told?.title ?? `A tour in ${steps.length} steps`
        byId("tour-text").innerHTML = told?.text ?? ""
        byId("tour-question").innerHTML = told?.question ?? ""
        byId("tour-answer").hidden = !told?.answer
        byId("tour-answer").open = false
        byId("tour-answer").querySelector("div").innerHTML = told?.answer ?? ""
        const stored = told?.picture, part = stored ? "stored" : told?.light
        for (const card of document.querySelectorAll("[data-part]")) {
            card.classList.toggle("lit", card.dataset.part.split(" ").includes(part))
        }
        for (const card of document.querySelectorAll(".live, #handles, #asked")) {
            card.hidden = !live
        }
        for (const input of document.querySelectorAll("[name=problem]")) {
            input.checked = live && input.value == name
        }
        byId("stored").hidden = stored == null
        if (stored != null) {
            byId("stored-caption").textContent = `${stored.caption}. ${stored.words}`
            this.picture.show(stored.figures)
        }
    }
}

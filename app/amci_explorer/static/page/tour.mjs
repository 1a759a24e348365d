// The tour: a step sets the handles, lights up a part of the page, or shows a stored picture.

import {byId} from "./text.mjs"

export class Tour {
    /** `chosen` is called after a step has changed the state. */
    constructor(state, chosen) {
        this.state = state
        this.steps = state.facts.steps
        this.chosen = chosen
        byId("tour").hidden = this.steps.length == 0
        byId("next").addEventListener("click", () => this.go(state.step + 1))
        byId("previous").addEventListener("click", () => this.go(state.step - 1))
    }

    /** Goes to a step, and sets what it says. */
    go(step) {
        const {name, problem, ...place} = this.steps[step].case
        if (problem != null) { this.state.open(problem) }
        this.state.place(place)
        this.state.step = step
        this.chosen()
    }

    /** Shows the state's step. */
    show(dark) {
        const {step} = this.state, told = this.steps[step]
        if (!this.steps.length) { return }
        byId("previous").disabled = step <= 0
        byId("next").disabled = step + 1 >= this.steps.length
        byId("next").textContent = step < 0 ? "Start →" : "Next →"
        byId("place").textContent = step < 0 ? "" : `${step + 1} of ${this.steps.length}`
        if (this.shown !== step) {
            this.shown = step
            byId("tour-title").textContent = told?.title ?? `A tour in ${this.steps.length} steps`
            byId("tour-text").innerHTML = told?.text ?? ""
            byId("tour-question").innerHTML = told?.question ?? ""
            byId("tour-answer").hidden = !told?.answer
            byId("tour-answer").open = false
            byId("tour-answer").querySelector("div").innerHTML = told?.answer ?? ""
        }
        this.picture(told, dark)
        const part = told?.picture ? "stored" : told?.light
        for (const card of document.querySelectorAll("[data-part]")) {
            card.classList.toggle("lit", card.dataset.part.split(" ").includes(part))
        }
    }

    picture(told, dark) {
        const picture = told?.picture
        byId("stored").hidden = picture == null
        for (const card of document.querySelectorAll(".live, #handles, #asked")) {
            card.hidden = !this.state.live
        }
        for (const input of document.querySelectorAll("[name=problem]")) {
            input.checked = this.state.live && input.value == this.state.name
        }
        if (picture == null) { return }
        const file = dark ? picture.dark : picture.light
        if (byId("stored-image").getAttribute("src") != file) { byId("stored-image").src = file }
        byId("stored-image").alt = picture.alternative
        byId("stored-caption").textContent = picture.caption
    }

    /** Leaves the tour: its step is about another problem. */
    leave() { this.state.step = -1 }
}

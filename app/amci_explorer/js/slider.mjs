// A native range input under its name and its value.

import {mover} from "./moves.mjs"

export function render({model}) {
    const make = (tag, properties, ...inside) => {
        const made = Object.assign(document.createElement(tag), properties)
        made.append(...inside)
        return made
    }
    const name = make("span", {className: "name", ariaHidden: "true"}), output = make("output")
    const input = make("input", {type: "range"})
    const track = make("div", {className: "track"}, input)
    input.dataset.moves = model.moves.join()
    const [variable, coordinate] = model.moves
    let isHeld = false

    const along = value => Math.min(Math.max((value - model.start) / (model.end - model.start), 0), 1)
    const show = value => {
        const {start, end, step, disabled, label} = model
        Object.assign(input, {min: start, max: end, step, disabled, value, ariaLabel: label})
        input.style.setProperty("--along", along(value))
        output.textContent = Number.isFinite(value) ? value.toFixed(model.digits) : "–"
        input.setAttribute("aria-valuetext", output.textContent)
        Object.assign(name, {textContent: label, title: model.help})
        input.ariaDescription = model.help
    }
    const follow = () => { if (!isHeld) { show(model.value) } }
    const moves = mover(input, model, "value", () => Number(input.value), at => {
        if (variable != null && !isHeld) { show([at[variable]].flat()[coordinate]) }
    })
    input.addEventListener("input", () => {
        isHeld = true
        show(Number(input.value))
        moves.move([variable, coordinate, Number(input.value)])
    })
    input.addEventListener("change", () => {
        isHeld = false
        moves.release()
    })
    for (const each of ["value", "start", "end", "label", "disabled"]) { model.on(each, follow) }
    follow()
    return make("div", {className: "slider"}, name, output, track)
}

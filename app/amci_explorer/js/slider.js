// A native range input under its name and its value. What moves a case tells the page by an event
// first: where pictures are painted here the server hears of it on release only.
export function render({model}) {
    const make = (tag, properties, ...inside) => {
        const made = Object.assign(document.createElement(tag), properties)
        made.append(...inside)
        return made
    }
    const name = make("span", {className: "name", ariaHidden: "true"}), output = make("output")
    const input = make("input", {type: "range"}), marks = make("div", {className: "marks"})
    const track = make("div", {className: "track"}, input, marks)
    const whole = make("div", {className: "slider"}, name, output, track)
    input.dataset.moves = model.moves.join()
    let isHeld = false, waiting = null

    const along = value => Math.min(Math.max((value - model.start) / (model.end - model.start), 0), 1)
    const text = value => {
        const share = Math.round(100 * value)
        return model.splits ? `${share} : ${100 - share}` : value.toFixed(model.digits)
    }
    const show = value => {
        const {start, end, step, disabled} = model
        Object.assign(input, {min: start, max: end, step, disabled})
        input.value = value
        input.style.setProperty("--along", along(value))
        output.textContent = Number.isFinite(value) ? text(value) : "–"
        input.setAttribute("aria-label", model.label)
        input.setAttribute("aria-valuetext", output.textContent)
        name.textContent = model.label
    }
    const follow = () => { if (!isHeld) { show(model.value) } }
    const mark = () => marks.replaceChildren(...model.marks.map(({value, label, above}) => {
        const words = make("span", {textContent: label})
        const made = make("div", {className: above ? "above" : "below"}, words)
        made.style.setProperty("--along", along(value))
        return made
    }))
    const tell = (name, detail) => input.dispatchEvent(new CustomEvent(
        name, {bubbles: true, composed: true, cancelable: true, detail}))
    const send = () => {
        window.cancelAnimationFrame(waiting)
        waiting = null
        model.value = Number(input.value)
    }
    input.addEventListener("input", () => {
        isHeld = true
        const value = Number(input.value), [variable, coordinate] = model.moves
        show(value)
        const detail = {variable, coordinate, value}
        const isPainted = variable != null && !tell("amci:move", detail)
        if (!isPainted) { waiting ??= window.requestAnimationFrame(send) }
    })
    input.addEventListener("change", () => {
        isHeld = false
        send()
        model.committed += 1
        tell("amci:release")
    })
    // Where a case painted in the page has its handles.
    const at = ({detail}) => {
        const [variable, coordinate] = model.moves
        if (variable != null && !isHeld) { show([detail[variable]].flat()[coordinate]) }
    }
    document.addEventListener("amci:case", at)
    model.on("remove", () => document.removeEventListener("amci:case", at))
    model.on("marks", mark)
    for (const each of ["value", "start", "end", "label", "disabled"]) { model.on(each, follow) }
    follow()
    mark()
    return whole
}

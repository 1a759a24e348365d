// A native range input under its name and its value. What moves a case tells the page by an event
// first: where pictures are painted here the server hears of it on release only. With a figure it
// is the handle of a line in that: as long as its axis, its thumb as high as the picture.
const HALF = 9 // pixels of the thumb of a line on either side

export function render({model, view}) {
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
    const figure = () => view.model.document?.get_model_by_name(model.figure)
    const text = value => {
        const share = Math.round(100 * value)
        return model.splits ? `${share} : ${100 - share}` : value.toFixed(model.digits)
    }
    const show = value => {
        const {step, disabled} = model, {start, end} = figure()?.x_range ?? model
        Object.assign(input, {min: start, max: end, step: model.figure ? "any" : step, disabled})
        input.value = value
        input.style.setProperty("--along", along(value))
        output.textContent = Number.isFinite(value) ? text(value) : "–"
        input.setAttribute("aria-label", model.label)
        input.setAttribute("aria-valuetext", output.textContent)
        name.textContent = model.label
        if (model.figure) {
            output.textContent = `⇄ θ = ${output.textContent}`
            output.style.setProperty("--along", (value - start) / (end - start))
            whole.hidden = disabled || value < start || value > end
        }
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
        model.value = chosen()
    }
    const chosen = () => {
        const value = Math.round(Number(input.value) / model.step) * model.step
        return Number(Math.min(Math.max(value, model.start), model.end).toFixed(10))
    }
    input.addEventListener("input", () => {
        isHeld = true
        const [variable, coordinate] = model.moves, value = chosen()
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
    let of = null
    const attach = () => {
        const frame = [...Bokeh.index.query(each => each.model.name == model.figure)][0]?.frame
        const shown = figure()
        if (frame?.bbox.width > 0) {
            const {left, width} = frame.bbox
            Object.assign(whole.style, {marginLeft: `${left - HALF}px`, width: `${width + 2 * HALF}px`})
        } else { window.setTimeout(attach, 200) }
        if (shown != null && shown != of) {
            of = shown
            shown.x_range.change.connect(follow)
            shown.properties.inner_width.change.connect(() => window.setTimeout(attach, 0))
        }
        follow()
    }
    if (model.figure) {
        whole.classList.add("line")
        input.addEventListener("keydown", event => {
            const steps = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1}[event.key]
            if (steps == null) { return }
            event.preventDefault()
            input.value = chosen() + steps * model.step
            input.dispatchEvent(new Event("input"))
            input.dispatchEvent(new Event("change"))
        })
        model.on("figure", attach)
        attach()
    }
    follow()
    mark()
    return whole
}

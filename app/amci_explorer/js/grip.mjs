// The grip of theta's line, on the x axis of a picture: mouse, finger and keys move it. Its place is
// what the picture's own scale says, also when somebody has zoomed.

import {mover} from "./moves.mjs"

export function render({model, view}) {
    const thumb = document.createElement("div")
    Object.assign(thumb, {className: "thumb", tabIndex: 0, role: "slider", ariaLabel: model.label})
    thumb.dataset.moves = model.moves.join()
    let frame = null, at = model.value, isHeld = false
    const place = () => {
        const {start, end, digits, disabled} = model, x = frame?.x_scale.compute(at)
        Object.assign(thumb, {ariaValueMin: start, ariaValueMax: end, ariaValueNow: at})
        thumb.textContent = `⇄ θ = ${at.toFixed(digits)}`
        thumb.hidden = disabled || !(x >= frame?.bbox.left && x <= frame.bbox.right)
        thumb.style.left = `${x}px`
    }
    const show = value => {
        at = value
        place()
    }
    const moves = mover(thumb, model, "value", () => at, ({theta}) => {
        if (!isHeld) { show(theta[0]) }
    })
    const move = to => {
        const {start, end, step, digits} = model
        const value = Math.min(Math.max(Math.round(to / step) * step, start), end)
        show(Number(value.toFixed(digits)))
        moves.move([...model.moves, at])
    }
    thumb.addEventListener("pointerdown", event => {
        thumb.setPointerCapture(event.pointerId)
        isHeld = true
    })
    thumb.addEventListener("pointermove", event => {
        if (isHeld) { move(frame.x_scale.invert(event.clientX - view.el.getBoundingClientRect().left)) }
    })
    thumb.addEventListener("lostpointercapture", () => {
        isHeld = false
        moves.release()
    })
    thumb.addEventListener("keydown", event => {
        const steps = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1}[event.key]
        if (steps == null) { return }
        event.preventDefault()
        move(at + steps * model.step)
        moves.release()
    })
    for (const name of ["value", "disabled"]) { model.on(name, () => { if (!isHeld) { show(model.value) } }) }
    const find = () => {
        const shown = [...Bokeh.index.query(each => each.model.name == model.figure)][0]
        if (!(shown?.frame?.bbox.width > 0)) { return void window.setTimeout(find, 100) }
        frame = shown.frame
        const {x_range, properties} = shown.model
        for (const signal of [x_range.change, properties.inner_width.change]) {
            signal.connect(() => window.setTimeout(place, 0))
        }
        place()
    }
    place()
    find()
    return thumb
}

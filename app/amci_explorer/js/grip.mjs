// The grip of a line, on the x axis of a picture: mouse, finger and keys move it. Its place is what
// the picture's own scale says, also when somebody has zoomed.

import {mover} from "./moves.mjs"

export function render({model, view}) {
    const thumb = document.createElement("div")
    Object.assign(thumb, {className: "thumb", tabIndex: 0, role: "slider", ariaLabel: model.label})
    thumb.dataset.moves = model.moves.join()
    let frame = null, at = model.value, isHeld = false
    const place = () => {
        const {start, end, digits, disabled} = model, x = frame?.x_scale.compute(at)
        Object.assign(thumb, {ariaValueMin: start, ariaValueMax: end, ariaValueNow: at})
        const value = model.stops.length ? at.toLocaleString("en") : at.toFixed(digits)
        thumb.textContent = `⇄ ${model.text.replace("{}", value)}`
        thumb.hidden = disabled || !(x > frame?.bbox.left - 1 && x < frame.bbox.right + 1)
        thumb.style.left = `${x}px`
    }
    const show = value => {
        at = value
        place()
    }
    const moves = mover(thumb, model, "value", () => at, ({theta}) => {
        if (!isHeld && model.moves.length) { show(theta[0]) }
    })
    const nearest = to => {
        const {start, end, step, digits, stops} = model, far = stop => Math.abs(Math.log(stop / to))
        if (stops.length) { return stops.reduce((best, stop) => far(stop) < far(best) ? stop : best) }
        return Number(Math.min(Math.max(Math.round(to / step) * step, start), end).toFixed(digits))
    }
    const move = to => {
        show(nearest(to))
        moves.move(...(model.moves.length ? [[...model.moves, at]] : [[]]))
    }
    const beside = by => {
        const {step, stops} = model, i = stops.indexOf(at) + by
        return stops.length ? stops[Math.min(Math.max(i, 0), stops.length - 1)] : at + by * step
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
        move(beside(steps))
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

// A handle on the x axis of a picture: mouse, finger and keys move it from stop to stop. Its place is
// what the picture's own scale says, also when somebody has zoomed.
export function render({model}) {
    const thumb = document.createElement("div")
    thumb.className = "thumb"
    thumb.tabIndex = 0
    thumb.setAttribute("role", "slider")
    thumb.setAttribute("aria-label", model.label)
    let shown = null
    const place = () => {
        // Stops and place come one after the other.
        const {stops, at} = model, value = stops[Math.min(at, stops.length - 1)]
        thumb.textContent = `⇄ ${value.toLocaleString("en")}`
        const said = {valuemin: stops[0], valuemax: stops.at(-1), valuenow: value}
        for (const [name, number] of Object.entries(said)) { thumb.setAttribute(`aria-${name}`, number) }
        if (shown?.frame == null) { return }
        const {frame, model: picture} = shown, {left, right, bottom} = frame.bbox
        const x = frame.x_scale.compute(value)
        thumb.style.visibility = x < left - 1 || x > right + 1 ? "hidden" : ""
        thumb.style.left = `${x}px`
        thumb.style.top = `${bottom - shown.bbox.height}px`
        const line = picture.center.find(each => each.name == "at")
        line?.setv({location: value}, {sync: false})
    }
    const find = () => {
        shown = [...Bokeh.index.query(view => view.model.name == model.picture)][0]
        if (shown?.frame?.bbox?.width > 0) {
            const {x_range, properties} = shown.model
            for (const signal of [x_range.change, properties.inner_width.change, properties.inner_height.change]) {
                signal.connect(() => window.setTimeout(place, 0))
            }
            place()
        } else if (model.picture) {
            window.setTimeout(find, 100)
        }
    }
    const move = at => {
        const to = Math.max(0, Math.min(model.stops.length - 1, at))
        if (to != model.at) { model.at = to }
    }
    const let_go = () => { model.released += 1 }
    const nearest = x => {
        const far = model.stops.map(stop => Math.abs(shown.frame.x_scale.compute(stop) - x))
        return far.indexOf(Math.min(...far))
    }
    thumb.addEventListener("pointerdown", event => {
        thumb.setPointerCapture(event.pointerId)
        thumb.focus()
        event.preventDefault()
    })
    thumb.addEventListener("pointermove", event => {
        if (shown == null || !thumb.hasPointerCapture(event.pointerId)) { return }
        move(nearest(event.clientX - shown.el.getBoundingClientRect().left))
    })
    thumb.addEventListener("lostpointercapture", let_go)
    const steps = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -5, PageUp: 5}
    thumb.addEventListener("keydown", event => {
        const ends = {Home: 0, End: model.stops.length - 1}
        const to = ends[event.key] ?? (event.key in steps ? model.at + steps[event.key] : null)
        if (to == null) { return }
        event.preventDefault()
        move(to)
    })
    thumb.addEventListener("keyup", event => {
        if (event.key in steps || event.key == "Home" || event.key == "End") { let_go() }
    })
    for (const name of ["at", "stops"]) { model.on(name, place) }
    place()
    find()
    return thumb
}

// Bokeh draws a picture and its tools as plain elements. Here they get roles, names and keys, in every
// picture of a page, whenever one is `drawn`. Who cannot run this hears the picture's alternative alone.
const set = (el, attributes) => {
    for (const [name, value] of Object.entries(attributes)) { el?.setAttribute(name, value) }
}
const pressed = (el, keys) => {
    if (el.keyed) { return }
    el.keyed = true
    el.addEventListener("keydown", event => {
        if (event.ctrlKey || event.altKey || event.metaKey || keys[event.key] == null) { return }
        keys[event.key]()
        event.preventDefault()
        event.stopImmediatePropagation()
    }, true)
}
const turn = ({frame}, x, y, times) => {
    const {left, right, top, bottom} = frame.bbox
    const move = (range, scale, low, high, by) => {
        const middle = (low + high) / 2 + by * (high - low), half = times * (high - low) / 2
        range.setv({start: scale.invert(middle - half), end: scale.invert(middle + half)})
    }
    move(frame.x_range, frame.x_scale, left, right, x)
    move(frame.y_range, frame.y_scale, bottom, top, y)
}
// The picture: its drawing has the alternative, the frame takes keys, and neither holds the tools.
const dress_picture = view => {
    const {model, canvas_view} = view, words = model.html_attributes["aria-label"]
    if (words == null || canvas_view == null) { return }
    view.el.setAttribute("role", "group")
    view.el.removeAttribute("aria-label")
    set(canvas_view.primary.canvas, {role: "img", "aria-label": words})
    canvas_view.events_el.removeAttribute("tabindex")
    const frame = view.frame_view?.el
    const zooms = model.toolbar.tools.some(({type}) => type == "ResetTool")
    if (frame == null || !zooms) { return }
    const axes = [...model.left, ...model.below].map(axis => axis.axis_label).filter(label => label)
    const name = axes.length ? axes.join(" over ") : words.split(". ")[0]
    set(frame, {
        tabindex: 0,
        role: "application",
        "aria-roledescription": "picture",
        "aria-label": `${name}: arrow keys move, plus and minus zoom, 0 resets`,
    })
    pressed(frame, {
        ArrowLeft: () => turn(view, -0.1, 0, 1),
        ArrowRight: () => turn(view, 0.1, 0, 1),
        ArrowUp: () => turn(view, 0, 0.1, 1),
        ArrowDown: () => turn(view, 0, -0.1, 1),
        "+": () => turn(view, 0, 0, 0.8),
        "-": () => turn(view, 0, 0, 1.25),
        "0": () => view.reset(),
    })
}
const dress_tool = view => {
    const {el, model} = view
    set(el, {role: "button", tabindex: 0, "aria-label": el.title})
    if (model.type == "OnOffButton") { el.setAttribute("aria-pressed", model.tool.active) }
    pressed(el, {Enter: () => view.tap(), " ": () => view.tap()})
}
const dress_toolbar = view => {
    set(view.el, {role: "toolbar", "aria-label": "Picture tools"})
    set(view.overflow_el, {role: "button", "aria-label": "More tools", "aria-haspopup": true})
    for (const button of view.tool_button_views) { dress_tool(button) }
}
// Its legend, where a click mutes what it names.
const dress_entry = (view, entry) => {
    if (view.model.click_policy == "none") { return }
    set(entry.el, {role: "button", tabindex: 0, "aria-pressed": view.is_active(entry.item)})
    const click = () => entry.el.dispatchEvent(new PointerEvent("pointerdown"))
    pressed(entry.el, {Enter: click, " ": click})
}
if (Bokeh.dressed == null) {
    Bokeh.dressed = true
    const dress = {
        Figure: dress_picture, Toolbar: dress_toolbar, OnOffButton: dress_tool, Legend: dress_entry,
    }
    for (const [kind, method] of drawn) {
        const views = Bokeh.Models.get(kind).prototype.default_view.prototype, plain = views[method]
        views[method] = function(...given) {
            const result = plain.apply(this, given)
            dress[kind](this, ...given)
            return result
        }
    }
    for (const view of Bokeh.index.query(each => each.model.type == "Figure")) { dress_picture(view) }
    for (const view of Bokeh.index.query(each => each.model.type == "Toolbar")) { dress_toolbar(view) }
}

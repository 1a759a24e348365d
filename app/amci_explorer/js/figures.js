// Bokeh draws a picture, its legend and its tools as plain elements. Here they get roles, names and
// keys, in every picture of a page, whenever one is drawn: its views are made anew when it comes
// back. Who cannot run this hears the picture's alternative alone.
const view_of = kind => Bokeh.Models.get(kind).prototype.default_view.prototype
const after = (kind, method, act) => {
    const views = view_of(kind), plain = views[method]
    views[method] = function(...given) {
        const result = plain.apply(this, given)
        act(this, ...given)
        return result
    }
}
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

// The picture: its drawing has the alternative, the frame takes keys, and neither holds the tools.
const ZOOMING = ["PanTool", "BoxZoomTool", "WheelZoomTool"]
const ends = (scale, low, high, by, times) => {
    const middle = (low + high) / 2 + by * (high - low), half = times * (high - low) / 2
    return [scale.invert(middle - half), scale.invert(middle + half)]
}
const turn = (view, x, y, times) => {
    const {frame} = view, {left, right, top, bottom} = frame.bbox
    const [start, end] = ends(frame.x_scale, left, right, x, times)
    frame.x_range.setv({start, end})
    const [low, high] = ends(frame.y_scale, bottom, top, y, times)
    frame.y_range.setv({start: low, end: high})
}
const dress_picture = view => {
    const {model, canvas_view} = view, words = model.html_attributes["aria-label"]
    if (words == null || canvas_view == null) { return }
    view.el.setAttribute("role", "group")
    view.el.removeAttribute("aria-label")
    set(canvas_view.primary.canvas, {role: "img", "aria-label": words})
    canvas_view.events_el.removeAttribute("tabindex")
    const frame = view.frame_view?.el
    if (frame == null || !model.toolbar.tools.some(tool => ZOOMING.includes(tool.type))) { return }
    const axes = [...model.left, ...model.below].map(axis => axis.axis_label).filter(label => label)
    set(frame, {
        tabindex: 0,
        role: "application",
        "aria-roledescription": "picture",
        "aria-label": `${axes.join(" over ")}: arrow keys move, plus and minus zoom, 0 resets`,
    })
    pressed(frame, {
        ArrowLeft: () => turn(view, -0.1, 0, 1),
        ArrowRight: () => turn(view, 0.1, 0, 1),
        ArrowUp: () => turn(view, 0, 0.1, 1),
        ArrowDown: () => turn(view, 0, -0.1, 1),
        "+": () => turn(view, 0, 0, 0.8),
        "=": () => turn(view, 0, 0, 0.8),
        "-": () => turn(view, 0, 0, 1.25),
        "0": () => view.reset(),
    })
}

// Its tools: one stop for the Tab key, and arrows lead from one to the next.
const dress_tool = view => {
    const {el, model} = view, {tool} = model
    set(el, {role: "button", "aria-label": el.title})
    if (model.type == "OnOffButton") { el.setAttribute("aria-pressed", tool.active) }
    el.tabIndex = el.stop ?? -1
    const lead = to => {
        const all = view.parent.tool_button_views.map(each => each.el).filter(each => each.offsetWidth)
        const next = all.at((all.indexOf(el) + to) % all.length)
        for (const each of all) { each.stop = each.tabIndex = each == next ? 0 : -1 }
        next.focus()
    }
    const on = () => lead(1), back = () => lead(-1)
    pressed(el, {
        Enter: () => view.tap(),
        " ": () => view.tap(),
        ArrowDown: on,
        ArrowRight: on,
        ArrowUp: back,
        ArrowLeft: back,
    })
}
const dress_toolbar = view => {
    const orientation = view.model.horizontal ? "horizontal" : "vertical"
    set(view.el, {role: "toolbar", "aria-label": "Picture tools", "aria-orientation": orientation})
    set(view.overflow_el, {role: "button", "aria-label": "More tools", "aria-haspopup": true})
    const all = view.tool_button_views.filter(each => each.model.tool.visible).map(each => each.el)
    if (all.length && !all.some(el => el.stop == 0)) { all[0].stop = all[0].tabIndex = 0 }
}

// Its legend, where it hides and shows what it names.
const dress_entry = (view, entry) => {
    if (view.model.click_policy == "none") { return }
    set(view.el, {role: "group", "aria-label": "Legend: shows and hides"})
    set(entry.el, {role: "button", tabindex: 0, "aria-pressed": view.is_active(entry.item)})
    // A click makes all entries anew, and more than once.
    const focus = () => { if (document.activeElement == document.body) { entry.el.focus() } }
    if (view.kept == entry.i) { window.setTimeout(focus, 0) }
    const click = () => {
        view.kept = entry.i
        entry.el.dispatchEvent(new PointerEvent("pointerdown"))
    }
    pressed(entry.el, {Enter: click, " ": click})
    entry.el.addEventListener("blur", event => {
        if (event.relatedTarget != null) { view.kept = null }
    })
}

if (Bokeh.dressed == null) {
    Bokeh.dressed = true
    after("Figure", "_apply_html_attributes", dress_picture)
    after("Figure", "after_render", dress_picture)
    after("Toolbar", "render", dress_toolbar)
    after("OnOffButton", "_toggle_active", dress_tool)
    after("Legend", "_toggle_inactive", dress_entry)
    for (const view of Bokeh.index.query(each => each.model.type == "Figure")) {
        dress_picture(view)
        for (const part of Bokeh.index.query(each => each.model == view.model.toolbar)) {
            for (const button of part.tool_button_views) { dress_tool(button) }
            dress_toolbar(part)
        }
    }
    for (const view of Bokeh.index.query(each => each.model.type == "Legend")) {
        for (const entry of view.entries) { dress_entry(view, entry) }
    }
}

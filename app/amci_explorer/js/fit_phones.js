// What has left the page is let go after a second; Bokeh would keep it for half a minute.
cb_obj._recompute_timeout = 1000

// What came from the server is known there: the first event that names it, such as the click of a
// button, would send all of it back, which is refused.
const apply = cb_obj.apply_json_patch
cb_obj.apply_json_patch = (...patch) => {
    apply.apply(cb_obj, patch)
    cb_obj._new_models.clear()
}

// Where there is no room beside pictures, they have no names of curves there; on a phone their tools
// stand below them and legends are narrow. Also of those that come later.
if (window.matchMedia(crowded).matches) {
    const isPhone = window.innerWidth < 600
    const looks = {min_border_right: 6, ...(isPhone ? {toolbar_location: "below", min_border_left: 60} : {})}
    let waiting = false
    const fit = () => {
        waiting = false
        for (const model of cb_obj.all_models) {
            const fits = model.type === "Figure" && !model.tags.includes("named")
            if (fits && Object.keys(looks).some(name => model[name] != looks[name])) {
                model.setv(looks)
                const names = model.renderers.filter(({level, glyph}) => level == "overlay" && glyph?.type == "Text")
                names.forEach(each => each.setv({visible: false}))
                if (isPhone) {
                    model.above.filter(({type}) => type === "Legend").forEach(each => each.setv({ncols: 1}))
                }
            }
        }
    }
    fit()
    cb_obj.on_change(() => {
        if (!waiting) {
            waiting = true
            window.setTimeout(fit, 50)
        }
    })
}

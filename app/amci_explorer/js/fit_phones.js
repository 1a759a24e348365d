// What has left the page is let go after a second; Bokeh would keep it for half a minute.
cb_obj._recompute_timeout = 1000

// What came from the server is known there: the first event that names it, such as the click of a
// button, would send all of it back, which is refused.
const apply = cb_obj.apply_json_patch
cb_obj.apply_json_patch = (...patch) => {
    apply.apply(cb_obj, patch)
    cb_obj._new_models.clear()
}

// On a phone the tools of pictures stand below them and legends are narrow, also of those that come
// later.
const narrow = window.innerWidth < 600
if (narrow) {
    let waiting = false
    const fit = () => {
        waiting = false
        for (const model of cb_obj.all_models) {
            if (model.type === "Figure" && model.toolbar_location != "below") {
                model.setv({toolbar_location: "below", min_border_left: 60, min_border_right: 6})
                model.above.filter(({type}) => type === "Legend").forEach(each => each.setv({ncols: 1}))
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

// What has left the page is let go after a second; Bokeh would keep it for half a minute.
cb_obj._recompute_timeout = 1000

// On a phone the tools of pictures stand below them, also of those that come later.
const narrow = window.innerWidth < 600
if (narrow) {
    let waiting = false
    const fit = () => {
        waiting = false
        for (const model of cb_obj.all_models) {
            if (model.type === "Figure" && model.toolbar_location != "below") {
                model.setv({toolbar_location: "below", min_border_left: 60, min_border_right: 6})
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

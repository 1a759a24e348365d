// What a picture is as a table is made when somebody unfolds it; the server hears of that by tags.
document.addEventListener("click", event => {
    const summary = event.composedPath().find(part => part.classList?.contains("as-table"))
    if (summary == null) { return }
    const root = summary.getRootNode()
    for (const view of Bokeh.index.query(each => each.el == root.host)) {
        if (view.held === undefined) { keep_focus(view, root) }
        view.model.tags = [!summary.parentElement.open]
    }
}, true)

// It puts another text in its place, then and when the picture moves on, which would take the
// focus away.
function keep_focus(view, root) {
    view.held = root.activeElement
    root.addEventListener("focusin", event => { view.held = event.target })
    root.addEventListener("focusout", event => {
        const left = event.target
        queueMicrotask(() => {
            // What was taken away, not left, is not connected any more.
            if (view.held == left && left.isConnected) { view.held = null }
        })
    })
    view.model.properties.text.change.connect(() => {
        if (view.held == null || view.held.isConnected) { return }
        const same = view.held.matches("summary") ? null : root.querySelector(".scroll")
        const part = same ?? root.querySelector("summary")
        part.focus()
    })
}

// What a picture is as a table is made when somebody unfolds it; the server hears of that by tags.
// It puts another text in its place, which would take the focus away.
document.addEventListener("click", event => {
    const summary = event.composedPath().find(part => part.classList?.contains("as-table"))
    if (summary == null) { return }
    const host = summary.getRootNode().host
    for (const view of Bokeh.index.query(each => each.el == host)) {
        if (view.waits == null) {
            view.model.properties.text.change.connect(() => {
                if (view.waits) { view.shadow_el.querySelector("summary").focus() }
                view.waits = false
            })
        }
        view.waits = true
        view.model.tags = [!summary.parentElement.open]
    }
}, true)

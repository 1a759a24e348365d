// Enter in the field of f applies its text, Escape puts back what is shown.
document.addEventListener("keydown", event => {
    if (event.key != "Enter" && event.key != "Escape") { return }
    const path = event.composedPath()
    if (!path.some(part => part.classList?.contains("own-f"))) { return }
    const channel = Bokeh.documents[0].get_model_by_name("own-f")
    if (channel == null || path[0].value == null) { return }
    if (event.key == "Escape") {
        for (const view of Bokeh.index.query(v => v.model.css_classes?.includes?.("own-f"))) {
            view.model.data.setv({value_input: channel.text, value: channel.text})
        }
    }
    const text = event.key == "Enter" ? path[0].value : null
    channel.tags = [text, Date.now()]
}, true)

// A native element: its keys, its state and its name are the browser's own.
export function render({model}) {
    const details = document.createElement("details")
    const summary = document.createElement("summary")
    const content = document.createElement("div")
    content.className = "content"
    content.append(model.get_child("content"))
    details.append(summary, content)
    const show = () => {
        summary.textContent = model.title
        details.open = model.unfolded
    }
    details.addEventListener("toggle", () => { model.unfolded = details.open })
    model.on("title", show)
    model.on("unfolded", show)
    show()
    return details
}

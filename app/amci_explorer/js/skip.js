// The first thing that the Tab key reaches leads past the controls; nobody else sees it.
const page = cb_obj.roots().find(root => root.class_name === "Page")
const main = Bokeh.index.find_one(page)?.shadow_el?.querySelector("main")
const find = root => {
    for (const el of root.querySelectorAll("*")) {
        const found = el.classList.contains("part-densities") ? el : el.shadowRoot && find(el.shadowRoot)
        if (found) { return found }
    }
}
if (main != null) {
    const place = document.createElement("nav"), button = document.createElement("button")
    place.setAttribute("aria-label", "Skip")
    button.textContent = "Skip to the pictures"
    const hidden = "position: fixed; top: -100px; left: 0", shown = `position: fixed; top: 0; left: 0;
        z-index: 10000; padding: 12px 20px; border: 2px solid; background: #fff; color: #17324a;
        font: 600 16px system-ui, sans-serif`
    button.style.cssText = hidden
    button.onfocus = () => { button.style.cssText = shown }
    button.onblur = () => { button.style.cssText = hidden }
    button.onclick = () => {
        const pictures = find(document) ?? main
        pictures.tabIndex = -1
        pictures.style.outline = "none"
        pictures.focus()
        pictures.scrollIntoView({block: "nearest"})
    }
    place.append(button)
    document.body.prepend(place)
}

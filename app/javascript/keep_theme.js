// The theme is the one chosen last, in any visit, else the system's. A link may name another.
// Some frames are denied storage.
const page = cb_obj.roots().find(root => root.class_name === "Page")
const stored = (write) => { try { return write(window.localStorage) } catch { return null } }
const linked = new URLSearchParams(window.location.search).has("theme")
if (page != null) {
    if (!linked) {
        const system = window.matchMedia("(prefers-color-scheme: dark)").matches
        const kept = stored(storage => storage.getItem("amci-theme"))
        page.data.dark_theme = kept == null ? system : kept === "dark"
    }
    // Style sheets of the page look at its root, see `app.style`.
    const mark = () => {
        document.documentElement.dataset.mode = page.data.dark_theme ? "dark" : "light"
    }
    mark()
    page.data.properties.dark_theme.change.connect(() => {
        mark()
        const chosen = page.data.dark_theme ? "dark" : "light"
        stored(storage => storage.setItem("amci-theme", chosen))
    })
}

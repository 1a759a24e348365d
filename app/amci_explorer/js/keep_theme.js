// Another theme than the root's has been chosen: it is the root's from now on, and the next
// visit's. Some frames are denied storage.
const page = cb_obj.roots().find(root => root.class_name === "Page")
const root = document.documentElement
page?.data.properties.dark_theme.change.connect(() => {
    const chosen = page.data.dark_theme ? "dark" : "light"
    if (chosen === root.dataset.theme) { return }
    root.dataset.theme = chosen
    window.tell_theme(chosen)
    try { window.localStorage.setItem("amci-theme", chosen) } catch {}
})

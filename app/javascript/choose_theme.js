// Runs before anything is drawn. The theme is the link's, else the one chosen last in any visit,
// else the system's; every part of the page takes it from the root. Some frames are denied storage.
{
    const stored = () => {
        try { return window.localStorage.getItem("amci-theme") } catch { return null }
    }
    const linked = new URLSearchParams(window.location.search).get("theme")
    const system = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"
    document.documentElement.dataset.theme =
        [linked, stored()].find(theme => theme === "dark" || theme === "light") ?? system
}

// Runs before anything is drawn. The theme is the link's, else the one chosen last in any visit,
// else the system's; every part of the page takes it from the root. Some frames are denied storage.
{
    const allowed = theme => theme === "dark" || theme === "light"
    const stored = () => {
        try { return window.localStorage.getItem("amci-theme") } catch { return null }
    }
    // The next visit, whose link may name none, is drawn in this theme by the server.
    window.tell_theme = theme => {
        const life = "max-age=31536000; samesite=lax"
        try { document.cookie = `amci-theme=${theme}; ${life}` } catch {}
    }
    const linked = new URLSearchParams(window.location.search).get("theme")
    const system = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"
    const own = [stored(), system].find(allowed)
    window.tell_theme(own)
    document.documentElement.dataset.theme = allowed(linked) ? linked : own
}

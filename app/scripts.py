r"""What a page does by itself, in JavaScript: what its server cannot know, or is not there for."""

from __future__ import annotations

__all__ = ["CONNECTION_LOST", "FIT_PHONES", "HIDE_ON_PHONES", "KEEP_THEME"]

# On a phone the sidebar is a drawer over the page. The server cannot know how wide a screen is, so
# the page folds it away itself, and does not show it before that; there pictures do without tools,
# also those that come later.
HIDE_ON_PHONES = "@media (max-width: 599.95px) { [data-pmui-layer] { visibility: hidden; } }"
FIT_PHONES = """
    const narrow = window.innerWidth < 600
    for (const root of cb_obj.roots()) {
        if (root.class_name === "Page") {
            if (narrow) { root.data.sidebar_open = false }
            window.setTimeout(() => { root.stylesheets = [] }, 600)
        }
    }
    if (narrow) {
        let waiting = false
        const fit = () => {
            waiting = false
            for (const model of cb_obj.all_models) {
                if (model.type === "Figure" && model.toolbar_location != null) {
                    model.setv({toolbar_location: null, min_border_left: 60})
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
"""

# The theme is the one chosen last, in any visit, else the system's. A link may name another.
# Some frames are denied storage.
KEEP_THEME = """
    const page = cb_obj.roots().find(root => root.class_name === "Page")
    const stored = (write) => { try { return write(window.localStorage) } catch { return null } }
    const linked = new URLSearchParams(window.location.search).has("theme")
    if (page != null) {
        if (!linked) {
            const system = window.matchMedia("(prefers-color-scheme: dark)").matches
            const kept = stored(storage => storage.getItem("amci-theme"))
            page.data.dark_theme = kept == null ? system : kept === "dark"
        }
        page.data.properties.dark_theme.change.connect(() => {
            const chosen = page.data.dark_theme ? "dark" : "light"
            stored(storage => storage.setItem("amci-theme", chosen))
        })
    }
"""

# The page's address holds its state, so that reloading leads back to it. The server is asked for a
# file: the page itself would open a session. A page whose server is there and which loses its
# connection again and again is left to its visitor.
CONNECTION_LOST = """
    if (document.getElementById("connection-lost") == null) {
        const banner = document.createElement("div")
        banner.id = "connection-lost"
        banner.setAttribute("role", "alert")
        banner.style.cssText = `position: fixed; inset: 0 0 auto 0; z-index: 10000; display: flex;
            flex-wrap: wrap; gap: 8px 16px; align-items: center; justify-content: center;
            padding: 12px; background: #8a1c1c; color: #fff; font: 16px system-ui, sans-serif`
        const words = document.createElement("span")
        words.textContent = "The connection to the server is lost: nothing is computed any more. "
            + "This page comes back by itself, as it is, when the server answers."
        const button = document.createElement("button")
        button.textContent = "Reload now"
        button.style.cssText = "font: inherit; padding: 4px 12px; cursor: pointer"
        button.onclick = () => window.location.reload()
        banner.append(words, button)
        document.body.prepend(banner)

        const file = document.querySelector("script[src*='static/']")?.src ?? window.location.href
        const reload_rarely = () => {
            const last = Number(window.name.replace("amci-reloaded-", "")) || 0
            if (Date.now() - last > 20000) {
                window.name = `amci-reloaded-${Date.now()}`
                window.location.reload()
            }
        }
        window.setInterval(async () => {
            try {
                const answer = await fetch(file, {method: "HEAD", cache: "no-store"})
                if (answer.ok) { reload_rarely() }
            } catch {}
        }, 2000)
    }
"""

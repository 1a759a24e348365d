// The page's address holds its state, so that reloading leads back to it. The server is asked for a
// file: the page itself would open a session. A page whose server is there and which loses its
// connection again and again is left to its visitor.
if (document.getElementById("connection-lost") == null) {
    const banner = document.createElement("div")
    banner.id = "connection-lost"
    banner.setAttribute("role", "alert")
    banner.style.cssText = `position: fixed; inset: 0 0 auto 0; z-index: 10000; display: flex;
        flex-wrap: wrap; gap: 8px 16px; align-items: center; justify-content: center;
        padding: 12px; background: #8a1c1c; color: #fff; font: 16px system-ui, sans-serif`
    const words = document.createElement("span")
    words.textContent = "The connection to the server is lost: nothing is being computed. "
        + "The page reconnects, in its present state, when the server answers."
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

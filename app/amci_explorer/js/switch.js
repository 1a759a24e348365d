// Two tabs above pictures that stand beside one another in a strip which scrolls sideways: a tap or a
// swipe leads from one to the other. Both keep their width, which a hidden picture would lose.
export function render({model, view}) {
    const place = document.createElement("div")
    place.setAttribute("role", "tablist")
    place.setAttribute("aria-label", "Pictures")
    const tabs = model.names.map((name, at) => {
        const tab = document.createElement("button")
        tab.type = "button"
        tab.textContent = name
        tab.setAttribute("role", "tab")
        tab.onclick = () => choose(at)
        place.append(tab)
        return tab
    })
    let at = model.first, strip = null
    const show = () => tabs.forEach((tab, i) => {
        tab.setAttribute("aria-selected", i == at)
        tab.tabIndex = i == at ? 0 : -1
    })
    const lead = behavior => strip?.scrollTo({left: at * strip.clientWidth, behavior})
    const choose = to => {
        at = to
        show()
        lead("instant")
    }
    place.addEventListener("keydown", event => {
        const by = {ArrowLeft: -1, ArrowRight: 1}[event.key]
        if (by == null) { return }
        event.preventDefault()
        choose((at + by + tabs.length) % tabs.length)
        tabs[at].focus()
    })
    let width = 0
    const find = () => {
        strip = view.el.nextElementSibling
        if (strip == null) { return void window.setTimeout(find, 50) }
        new ResizeObserver(() => {
            if (strip.clientWidth != width) {
                width = strip.clientWidth
                lead("instant")
            }
        }).observe(strip)
        strip.addEventListener("scrollend", () => {
            if (strip.clientWidth == width && strip.scrollWidth > 1.5 * width) {
                at = Math.round(strip.scrollLeft / width)
                show()
            }
        })
    }
    show()
    window.setTimeout(find, 0)
    return place
}

// Tabs above pictures in a row that scrolls sideways: a tap or a swipe leads to the other one. Both
// keep their width, which a hidden picture would lose.
export function render({model, view}) {
    const place = document.createElement("div")
    Object.assign(place, {role: "tablist", ariaLabel: "Pictures"})
    const scroller = () => view.el.nextElementSibling
    const tabs = model.names.map((textContent, at) => Object.assign(
        document.createElement("button"), {type: "button", role: "tab", textContent, onclick: () => lead(at)}))
    place.append(...tabs)
    const show = at => tabs.forEach((tab, i) => Object.assign(tab, {ariaSelected: i == at}))
    const lead = at => {
        scroller().scrollTo({left: at * scroller().clientWidth, behavior: "instant"})
        show(at)
    }
    const find = () => {
        if (scroller() == null) { return void window.setTimeout(find, 50) }
        scroller().addEventListener("scroll", ({target}) => {
            show(Math.round(target.scrollLeft / target.clientWidth))
        })
    }
    show(0)
    window.setTimeout(find, 0)
    return place
}

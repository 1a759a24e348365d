// Arrow keys lead through the tour, unless what has the focus needs them itself. What a step is
// about gets an outline, and is scrolled to.
const KEEPS_KEYS = "input, select, textarea, [role=slider], [role=tab], [role=application], "
    + "[role=toolbar], [contenteditable]"
const NARROW = 1100 // pixels, as in `amci_explorer.views.style`

const find = (root, name) => {
    for (const el of root.querySelectorAll("*")) {
        const found = el.classList.contains(name) ? el : el.shadowRoot && find(el.shadowRoot, name)
        if (found) { return found }
    }
}

export function render({model}) {
    let lit = null, waiting = 0
    const lead = () => {
        if (lit) { lit.style.outline = "" }
        lit = model.lit ? find(document, `part-${model.lit}`) : null
        if (!lit) { return }
        // Within the margin of what has one, so that it crosses no words.
        const within = parseFloat(getComputedStyle(lit).paddingLeft) > 4
        Object.assign(lit.style, {
            outline: "3px solid var(--accent)",
            outlineOffset: within ? "-3px" : "2px",
            borderRadius: "10px",
        })
        // The tour stands below what it is about, on a narrow page above it.
        const room = `${find(document, "part-tour").offsetHeight + 20}px`
        const narrow = window.innerWidth < NARROW
        const tall = lit.clientHeight > 0.6 * window.innerHeight
        lit.style.scrollMargin = narrow ? `${room} 0 0` : `6px 0 ${room}`
        lit.scrollIntoView({block: narrow || tall ? "start" : "nearest"})
    }
    const show = () => {
        // What the step opens is laid out first.
        window.clearTimeout(waiting)
        waiting = window.setTimeout(lead, 500)
    }
    const keys = event => {
        const taken = event.composedPath().some(el => el.matches?.(KEEPS_KEYS))
        const step = model.step + ({ArrowLeft: -1, ArrowRight: 1}[event.key] ?? NaN)
        const there = step >= 0 && step < model.count
        if (there && !taken && !event.altKey && !event.ctrlKey && !event.metaKey) {
            event.preventDefault()
            model.step = step
        }
    }
    document.addEventListener("keydown", keys)
    model.on("remove", () => document.removeEventListener("keydown", keys))
    for (const name of ["step", "count", "lit"]) { model.on(name, show) }
    show()
}

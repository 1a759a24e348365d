// The tour's panel: a step, the way to others, and its question. Arrow keys lead on, unless what has
// the focus needs them itself.
const KEEPS_KEYS = "input, select, textarea, [role=slider], [role=tab], [role=application], "
    + "[role=toolbar], [contenteditable]"
const NARROW = 1100 // pixels, as in `amci_explorer.views.style`
const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches

const find = (root, name) => {
    for (const el of root.querySelectorAll("*")) {
        if (el.classList.contains(name)) { return el }
        const found = el.shadowRoot == null ? null : find(el.shadowRoot, name)
        if (found != null) { return found }
    }
    return null
}

export function render({model}) {
    const place = document.createElement("section")
    place.className = "tour"
    place.setAttribute("aria-label", "Tour")
    const words = document.createElement("div")
    words.className = "words"
    words.setAttribute("aria-live", "polite")
    const ways = document.createElement("div")
    ways.className = "ways"
    const button = (label, act, title) => {
        const made = document.createElement("button")
        made.type = "button"
        made.textContent = label
        made.title = title
        made.onclick = act
        ways.append(made)
        return made
    }
    const go = by => {
        const to = model.step + by
        if (to >= 0 && to < model.count) { model.step = to }
    }
    const back = button("Previous", () => go(-1), "Previous step (left arrow)")
    const next = button("Next", () => go(1), "Next step (right arrow)")
    const there = button("Go there", () => lead(), "Scroll to the part that this step is about")
    button("Show again", () => { model.again += 1 }, "Set the page to this step again")
    button("Leave", () => { model.opened = false }, "Leave the tour; Tour in the header comes back")
    const question = document.createElement("details")
    const asked = document.createElement("summary")
    const answer = document.createElement("p")
    question.append(asked, answer)
    place.append(words, ways, question)

    const show = () => {
        place.hidden = !model.opened
        words.innerHTML = model.words
        asked.innerHTML = model.question
        answer.innerHTML = model.answer
        there.disabled = model.lit == ""
        question.hidden = model.question == ""
        question.open = false
        back.disabled = model.step == 0
        next.disabled = model.step == model.count - 1
    }
    let led = 0
    const lead = () => {
        if (!model.opened || model.lit == "") { return }
        const part = find(document, `part-${model.lit}`)
        // The step stands at the bottom: what it is about stands above it.
        if (part != null) { part.style.scrollMarginBottom = `${place.offsetHeight + 8}px` }
        const behavior = still() ? "auto" : "smooth"
        const tall = part?.clientHeight > 0.6 * window.innerHeight
        part?.scrollIntoView({behavior, block: tall ? "start" : "nearest"})
    }
    const look = () => {
        // On a narrow page the step would leave the screen: there one is led by a button.
        if (window.innerWidth < NARROW) { return }
        // What a step changes is laid out first, and what it opens comes later. Who scrolls by
        // hand is not led any more.
        const at = ++led
        for (const wait of [400, 1500, 4000]) {
            window.setTimeout(() => { if (at == led) { lead() } }, wait)
        }
    }
    const leave_alone = () => { led += 1 }
    const BY_HAND = ["wheel", "touchmove", "pointerdown"]
    for (const name of BY_HAND) { document.addEventListener(name, leave_alone, {passive: true}) }
    for (const name of ["words", "question", "answer", "opened", "lit"]) { model.on(name, show) }
    for (const name of ["words", "again", "opened", "lit"]) { model.on(name, look) }
    const keys = event => {
        const taken = event.composedPath().some(el => el.matches?.(KEEPS_KEYS))
        const by = {ArrowLeft: -1, ArrowRight: 1}[event.key]
        if (!model.opened || taken || by == null || event.altKey || event.ctrlKey || event.metaKey) {
            return
        }
        event.preventDefault()
        go(by)
    }
    document.addEventListener("keydown", keys)
    model.on("remove", () => {
        document.removeEventListener("keydown", keys)
        for (const name of BY_HAND) { document.removeEventListener(name, leave_alone) }
    })
    show()
    look()
    return place
}

// The tour's panel: a step, the way to others, and its question. Arrow keys lead on, unless what has
// the focus needs them itself.
const KEEPS_KEYS = "input, select, textarea, [role=slider], [role=tab], [role=application], "
    + "[role=toolbar], [contenteditable]"
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
        question.hidden = model.question == ""
        question.open = false
        back.disabled = model.step == 0
        next.disabled = model.step == model.count - 1
    }
    const look = () => {
        if (!model.opened || model.lit == "") { return }
        // What a step changes is laid out first, and once more when its card is there.
        for (const wait of [400, 1500]) {
            window.setTimeout(() => {
                const part = find(document, `part-${model.lit}`)
                const behavior = still() ? "auto" : "smooth"
                part?.scrollIntoView({behavior, block: "nearest"})
            }, wait)
        }
    }
    for (const name of ["words", "question", "answer", "opened"]) { model.on(name, show) }
    for (const name of ["words", "again", "opened"]) { model.on(name, look) }
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
    model.on("remove", () => document.removeEventListener("keydown", keys))
    show()
    look()
    return place
}

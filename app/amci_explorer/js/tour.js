// The tour's panel: a step, the way to others, and its question. Arrow keys lead on, unless what has
// the focus needs them itself.
const KEEPS_KEYS = "input, select, textarea, [role=slider], [role=tab], [role=application], "
    + "[role=toolbar], [contenteditable]"
const NARROW = 1100 // pixels, as in `amci_explorer.views.style`
const FRAME = `<div class="words" aria-live="polite"></div>
    <div class="ways"><button title="Left arrow">Previous</button>
    <button title="Right arrow">Next</button><button>Go there</button>
    <button title="Tour in the header comes back">Leave</button></div>
    <details><summary></summary><p></p></details>`

const find = (root, name) => {
    for (const el of root.querySelectorAll("*")) {
        const found = el.classList.contains(name) ? el : el.shadowRoot && find(el.shadowRoot, name)
        if (found) { return found }
    }
}

export function render({model}) {
    const place = document.createElement("section")
    place.className = "tour"
    place.setAttribute("aria-label", "Tour")
    place.innerHTML = FRAME
    const [back, next, there, leave] = place.querySelectorAll("button")
    const [words, question, asked, answer] = ["div", "details", "summary", "details p"].map(
        name => place.querySelector(name))
    const go = by => {
        const to = model.step + by
        if (to >= 0 && to < model.count) { model.step = to }
    }
    let lit = null, waiting = 0
    const light = () => {
        const part = model.opened && model.lit ? find(document, `part-${model.lit}`) : null
        if (lit != null) { lit.style.outline = "" }
        if (part != null) {
            // Within the margin of what has one, so that it crosses no words.
            const within = parseFloat(getComputedStyle(part).paddingLeft) > 4
            Object.assign(part.style, {
                outline: "3px solid var(--accent)",
                outlineOffset: within ? "-3px" : "2px",
                borderRadius: "10px",
            })
        }
        lit = part
    }
    const lead = () => {
        light()
        if (lit == null) { return }
        // What the step is about stands beside it or above it, on a narrow page below it.
        const beside = lit.getBoundingClientRect().right < place.getBoundingClientRect().left
        const room = beside ? "6px" : `${place.offsetHeight + 8}px`
        const narrow = window.innerWidth < NARROW
        lit.style.scrollMargin = narrow ? `${room} 0 0` : `6px 0 ${room}`
        const tall = !beside && lit.clientHeight > 0.6 * window.innerHeight
        lit.scrollIntoView({block: narrow || tall ? "start" : "nearest"})
    }
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
        place.scrollTop = 0
        // What the step opens is laid out first.
        window.clearTimeout(waiting)
        waiting = window.setTimeout(lead, 500)
    }
    back.onclick = () => go(-1)
    next.onclick = () => go(1)
    there.onclick = lead
    leave.onclick = () => { model.opened = false }
    const keys = event => {
        const taken = event.composedPath().some(el => el.matches?.(KEEPS_KEYS))
        const by = {ArrowLeft: -1, ArrowRight: 1}[event.key]
        if (model.opened && !taken && by && !event.altKey && !event.ctrlKey && !event.metaKey) {
            event.preventDefault()
            go(by)
        }
    }
    document.addEventListener("keydown", keys)
    model.on("remove", () => document.removeEventListener("keydown", keys))
    for (const name of ["words", "question", "answer", "lit", "opened"]) { model.on(name, show) }
    show()
    return place
}

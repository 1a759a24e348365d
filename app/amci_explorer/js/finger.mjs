// Pictures follow a handle in the frame in which it moves, and the server hears of it on release.
// Its answer takes their place as soon as it is for where the handle is.

import {evaluatorOf, movedCase, paint} from "./live.mjs"

const SOURCES = ["densities", "plane-q1-data"]
// Milliseconds without an answer after a release; then what the server last said is shown.
const PATIENCE = 5000

export function render({view}) {
    // A layout that changes renders it again; what it listens to is there for as long as the page.
    const page = view.model.document, model = view.model.data
    if (page.finger == model) { return }
    page.finger = model
    // Where the handles are, if that is not yet answered.
    let evaluator = null, here = null, timer = null, painting = false
    // What the server last said, by source.
    const said = new Map()

    const isAnswered = () => ["y", "theta"].every(name =>
        here[name].every((v, i) => Math.abs(v - model[name][i]) <= 1e-4 * Math.max(1, Math.abs(v))))
    const show = () => {
        painting = true
        paint(page, {...evaluator, extent: model.extent}, here)
        painting = false
        document.dispatchEvent(new CustomEvent("amci:case", {detail: here}))
    }
    const answered = () => {
        if (here == null) { return }
        if (model.key != evaluator?.key || isAnswered()) { here = null } else { show() }
    }
    const watch = () => {
        for (const source of SOURCES.map(name => page.get_model_by_name(name))) {
            if (source == null || said.has(source)) { continue }
            said.set(source, source.data)
            source.properties.data.change.connect(() => {
                if (painting) { return }
                said.set(source, source.data)
                // The rest of the message comes first.
                queueMicrotask(answered)
            })
        }
    }
    document.addEventListener("amci:move", event => {
        if (evaluator == null || evaluator.key != model.key) { return }
        event.preventDefault()
        window.clearTimeout(timer)
        watch()
        here = movedCase(evaluator, here ?? model, event.detail)
        show()
        if (isAnswered()) { here = null }
    })
    document.addEventListener("amci:release", () => {
        window.clearTimeout(timer)
        timer = window.setTimeout(() => {
            if (here == null) { return }
            here = null
            for (const [source, data] of said) { source.setv({data}, {sync: false}) }
        }, PATIENCE)
    })
    // Weights are asked for when a handle is first reached.
    const reached = event => {
        if (event.composedPath()[0].dataset?.moves) { model.asked = model.key }
    }
    for (const event of ["pointerover", "focusin", "pointerdown"]) {
        document.addEventListener(event, reached, true)
    }
    const take = () => {
        evaluator = here = null
        if (model.weights == "") { return }
        const {key, proposals} = JSON.parse(model.weights)
        evaluator = {key, ...evaluatorOf({problem: key.split("/")[0], proposals})}
    }
    model.properties.weights.change.connect(take)
    take()
}

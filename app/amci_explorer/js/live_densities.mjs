// Pictures follow a handle in the frame in which it moves. The server's answer takes their place as
// soon as it is for where the handle is.

import {evaluatorOf, movedCase, paint} from "./live.mjs"

export function render({view}) {
    // A layout that changes renders it again; what it listens to is there for as long as the page.
    const page = view.model.document, model = view.model.data
    if (page.liveDensities == model) { return }
    page.liveDensities = model
    // Where the handles are, if that is not yet answered.
    let evaluator = null, here = null, painting = false, watched = null

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
    document.addEventListener("amci:move", event => {
        if (evaluator == null || evaluator.key != model.key) { return }
        const source = page.get_model_by_name("densities")
        if (source != watched) {
            watched = source
            // The rest of a message comes first.
            source.properties.data.change.connect(() => painting || queueMicrotask(answered))
        }
        here = movedCase(evaluator, here ?? model, event.detail)
        show()
        if (isAnswered()) { here = null }
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

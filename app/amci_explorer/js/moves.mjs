// What moves a case. The page hears of a move first, for it may paint that by itself. The server hears
// of the next move once it has answered the last one, so that moves never queue up there.

/**
 * Ties what is moved, an element, to the page and to a model of Panel's.
 *
 * name: the model's property that says where it is; where: its value now; follow: called with the
 * case, {y, theta, level}, wherever the page paints one
 */
export function mover(el, model, name, where, follow) {
    let waiting = null, isAsked = false, isLater = false
    const tell = (name, detail) => el.dispatchEvent(
        new CustomEvent(name, {bubbles: true, composed: true, detail}))
    const hear = ({detail}) => follow(detail)
    document.addEventListener("amci:case", hear)
    model.on("remove", () => document.removeEventListener("amci:case", hear))
    const now = () => {
        window.cancelAnimationFrame(waiting)
        waiting = null
        isLater = false
        // What does not change is not sent, and not answered.
        isAsked = String(where()) != String(model[name])
        model[name] = where()
    }
    const send = () => {
        isLater = isAsked
        if (!isAsked) { waiting ??= window.requestAnimationFrame(now) }
    }
    model.on("answered", () => {
        isAsked = false
        if (isLater) { send() }
    })
    return {
        // Each part: [variable, coordinate, value].
        move(...parts) {
            for (const [variable, coordinate, value] of parts) {
                if (variable != null) { tell("amci:move", {variable, coordinate, value}) }
            }
            send()
        },
        release() {
            now()
            model.committed += 1
            tell("amci:release")
        },
    }
}

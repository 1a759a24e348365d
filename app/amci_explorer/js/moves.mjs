// What moves a case. The page hears of a move first: where it paints that by itself, the server hears
// of it on release only.

/**
 * Ties what is moved, an element, to the page and to a model of Panel's.
 *
 * send: tells the server where it is; follow: called with the case, {y, theta, level}, wherever the
 * page paints one
 */
export function mover(el, model, send, follow) {
    let waiting = null
    const tell = (name, detail) => el.dispatchEvent(
        new CustomEvent(name, {bubbles: true, composed: true, cancelable: true, detail}))
    const hear = ({detail}) => follow(detail)
    document.addEventListener("amci:case", hear)
    model.on("remove", () => document.removeEventListener("amci:case", hear))
    const now = () => {
        window.cancelAnimationFrame(waiting)
        waiting = null
        send()
    }
    return {
        // Each part: [variable, coordinate, value].
        move(...parts) {
            const isPainted = parts.every(([variable, coordinate, value]) =>
                variable != null && !tell("amci:move", {variable, coordinate, value}))
            if (!isPainted) { waiting ??= window.requestAnimationFrame(now) }
        },
        release() {
            now()
            model.committed += 1
            tell("amci:release")
        },
    }
}

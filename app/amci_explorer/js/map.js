// The case among draws: a point to drag, or to move by arrow keys, along two axes.
export function render({model}) {
    const place = document.createElement("figure"), caption = document.createElement("figcaption")
    const frame = document.createElement("div")
    frame.className = "map"
    const point = Object.assign(document.createElement("button"), {type: "button", className: "case"})
    const across = document.createElement("i"), up = document.createElement("i")
    place.append(frame, caption)
    let at = model.at, isHeld = false, waiting = null

    const share = (value, [low, high]) => Math.min(Math.max((value - low) / (high - low), 0), 1)
    const show = () => {
        const [x, y] = at.map((value, i) => share(value, model.ends[i]))
        frame.style.setProperty("--x", x)
        frame.style.setProperty("--y", 1 - y)
        const where = model.labels.map((label, i) => `${label} ${Number(at[i].toPrecision(3))}`)
        point.setAttribute("aria-label", `${model.caption}: ${where.join(", ")}. Arrow keys move it.`)
    }
    const fill = () => {
        place.hidden = model.ends.length == 0
        frame.innerHTML = model.cloud
        frame.append(across, up, point)
        const [first, second] = model.labels
        caption.textContent = `${model.caption}: ${first} across, ${second} up`
        follow()
    }
    const follow = () => {
        if (!isHeld && model.at.length) {
            at = [...model.at]
            show()
        }
    }
    const tell = (name, detail) => point.dispatchEvent(new CustomEvent(
        name, {bubbles: true, composed: true, cancelable: true, detail}))
    const send = () => {
        window.cancelAnimationFrame(waiting)
        waiting = null
        model.at = [...at]
    }
    const move = to => {
        isHeld = true
        at = to.map((value, i) => {
            const [low, high] = model.ends[i]
            return Number(Math.min(Math.max(value, low), high).toFixed(2))
        })
        show()
        const painted = model.moves.map(([variable, coordinate], i) =>
            variable != null && !tell("amci:move", {variable, coordinate, value: at[i]}))
        if (!painted.every(each => each)) { waiting ??= window.requestAnimationFrame(send) }
    }
    const release = () => {
        isHeld = false
        send()
        model.committed += 1
        tell("amci:release")
    }
    point.dataset.moves = "case"
    point.addEventListener("pointerdown", event => {
        point.setPointerCapture(event.pointerId)
        isHeld = true
    })
    point.addEventListener("pointermove", event => {
        if (!isHeld) { return }
        const {left, width, top, height} = frame.getBoundingClientRect()
        const shares = [(event.clientX - left) / width, 1 - (event.clientY - top) / height]
        move(shares.map((each, i) => model.ends[i][0] + each * (model.ends[i][1] - model.ends[i][0])))
    })
    point.addEventListener("pointerup", release)
    point.addEventListener("pointercancel", release)
    point.addEventListener("keydown", event => {
        const to = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[event.key]
        if (to == null) { return }
        event.preventDefault()
        move(at.map((value, i) => value + 0.01 * to[i] * (model.ends[i][1] - model.ends[i][0])))
        release()
    })
    const painted = ({detail}) => {
        if (isHeld || !model.moves.every(([variable]) => variable != null)) { return }
        at = model.moves.map(([variable, coordinate]) => detail[variable][coordinate])
        show()
    }
    document.addEventListener("amci:case", painted)
    model.on("remove", () => document.removeEventListener("amci:case", painted))
    model.on("cloud", fill)
    model.on("at", follow)
    fill()
    return place
}

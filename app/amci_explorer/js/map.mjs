// The case among draws: a point to drag, or to move by arrow keys, along two axes.

import {mover} from "./moves.mjs"

export function render({model}) {
    const place = document.createElement("figure"), caption = document.createElement("figcaption")
    const frame = document.createElement("div")
    frame.className = "map"
    const point = Object.assign(document.createElement("button"), {type: "button", className: "case"})
    const across = document.createElement("i"), up = document.createElement("i")
    place.append(frame, caption)
    let at = model.at, isHeld = false

    const share = (value, [low, high]) => Math.min(Math.max((value - low) / (high - low), 0), 1)
    const show = () => {
        const [x, y] = at.map((value, i) => share(value, model.ends[i]))
        frame.style.setProperty("--x", x)
        frame.style.setProperty("--y", 1 - y)
        const where = model.labels.map((label, i) => `${label} ${Number(at[i].toPrecision(3))}`)
        point.ariaLabel = `${model.caption}: ${where.join(", ")}. Arrow keys move it.`
    }
    const follow = () => {
        if (!isHeld && model.at.length) {
            at = [...model.at]
            show()
        }
    }
    const name = () => {
        const [first, second] = model.labels
        caption.textContent = `${model.caption}: ${first} across, ${second} up`
    }
    const fill = () => {
        place.hidden = model.ends.length == 0
        frame.innerHTML = model.cloud
        frame.append(across, up, point)
        name()
        follow()
    }
    const moves = mover(point, model, "at", () => [...at], detail => {
        if (isHeld || !model.moves.every(([variable]) => variable != null)) { return }
        at = model.moves.map(([variable, coordinate]) => detail[variable][coordinate])
        show()
    })
    const move = to => {
        at = to.map((value, i) => {
            const [low, high] = model.ends[i]
            return Number(Math.min(Math.max(value, low), high).toFixed(model.digits[i]))
        })
        show()
        moves.move(...model.moves.map((each, i) => [each[0], each[1], at[i]]))
    }
    const of = i => shares => model.ends[i][0] + shares[i] * (model.ends[i][1] - model.ends[i][0])
    point.dataset.moves = "case"
    point.addEventListener("pointerdown", event => {
        point.setPointerCapture(event.pointerId)
        isHeld = true
    })
    point.addEventListener("pointermove", event => {
        if (!isHeld) { return }
        const {left, width, top, height} = frame.getBoundingClientRect()
        const shares = [(event.clientX - left) / width, 1 - (event.clientY - top) / height]
        move([of(0)(shares), of(1)(shares)])
    })
    point.addEventListener("lostpointercapture", () => {
        isHeld = false
        moves.release()
    })
    point.addEventListener("keydown", event => {
        const to = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[event.key]
        if (to == null) { return }
        event.preventDefault()
        const steps = model.ends.map(([low, high], i) => Math.max(0.01 * (high - low), 10 ** -model.digits[i]))
        move(at.map((value, i) => value + to[i] * steps[i]))
        moves.release()
    })
    model.on("cloud", fill)
    // Each change of several comes by itself.
    model.on("labels", name)
    model.on("caption", name)
    model.on("at", follow)
    fill()
    return place
}

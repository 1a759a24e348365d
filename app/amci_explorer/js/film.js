// The film's player: native buttons and a native slider. At its end it plays from the start.
export function render({model}) {
    const place = document.createElement("div")
    place.className = "film"
    place.setAttribute("role", "group")
    place.setAttribute("aria-label", "Training film")
    const play = document.createElement("button")
    play.type = "button"
    const frames = document.createElement("input")
    Object.assign(frames, {type: "range", min: 0, step: 1})
    frames.setAttribute("aria-label", "Frame")
    place.append(play, frames)
    let timer = null
    const show = () => {
        frames.max = model.end
        frames.value = model.value
        frames.disabled = play.disabled = model.disabled
        frames.setAttribute("aria-valuetext", `${model.value + 1} of ${model.end + 1}`)
        play.textContent = timer == null ? "Play" : "Pause"
    }
    const stop = () => {
        window.clearInterval(timer)
        timer = null
        show()
    }
    const next = () => {
        if (model.disabled || !place.isConnected) { stop() } else {
            model.value = Math.min(model.value + 1, model.end)
            if (model.value == model.end) { stop() }
        }
    }
    play.onclick = () => {
        if (timer != null) { stop(); return }
        if (model.value >= model.end) { model.value = 0 } else { next() }
        if (model.value < model.end) { timer = window.setInterval(next, model.milliseconds) }
        show()
    }
    frames.oninput = () => {
        const chosen = Number(frames.value)
        stop()
        model.value = chosen
    }
    for (const name of ["value", "end", "disabled"]) { model.on(name, show) }
    model.on("remove", stop)
    show()
    return place
}

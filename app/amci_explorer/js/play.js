// Draws one by one: they fall from their density, lie below it by weight, and the estimates grow.
// Everything was computed once; here it is only shown, in one canvas, at the screen's own pace.
const SPEEDS = {"2 a second": 2, "10 a second": 10, "50 a second": 50, "200 a second": 200}
const FEW = 10 // draws from which on a standard error is shown: before, it is mostly too small
const FALL = 350 // milliseconds that a draw falls
const HEAVY = 3 // a weight from here on is drawn as heavy
const LANE = 46, TOP = 8, LEFT = 64, RIGHT = 14, GAP = 30
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"

const number = (value, digits = 3) => {
    if (value == null || !Number.isFinite(value)) { return "?" }
    if (value == 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4)) {
        return String(Number(value.toPrecision(digits))).replace("-", "−")
    }
    const [mantissa, power] = value.toExponential(digits - 1).split("e")
    const raised = [...String(Math.abs(Number(power)))].map(d => RAISED[d]).join("")
    return `${mantissa.replace("-", "−")} × 10${Number(power) < 0 ? "⁻" : ""}${raised}`
}
const element = (kind, attributes = {}, text = "") => {
    const made = document.createElement(kind)
    for (const [name, value] of Object.entries(attributes)) { made.setAttribute(name, value) }
    made.textContent = text
    return made
}

export function render({model}) {
    const root = element("div", {class: "play"})
    const canvas = element("canvas", {role: "img", class: "picture"})
    const controls = element("div", {class: "controls", role: "group", "aria-label": "Draws"})
    const sums = element("div", {class: "sums"})
    const scrub = element("input", {type: "range", min: 0, step: 1, "aria-label": "Draws so far"})
    const speed = element("select", {"aria-label": "Speed"})
    for (const name of Object.keys(SPEEDS)) { speed.append(element("option", {}, name)) }
    speed.value = "10 a second"
    root.append(controls, canvas, sums)

    let n = 0, playing = false, last = 0, owed = 0, asked = 0
    // When each draw was let go, for those that are still falling.
    let fallen = new Map()
    const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches
    const data = () => model.data
    const count = () => data()?.count ?? 0
    const button = (text, title, act) => {
        const made = element("button", {type: "button", title, "aria-label": title}, text)
        made.onclick = act
        controls.append(made)
        return made
    }
    const go = to => {
        const from = n
        n = Math.max(0, Math.min(count(), to))
        const now = performance.now()
        if (n > from && n - from <= 20 && !calm()) {
            for (let i = from; i < n; i++) { fallen.set(i, now) }
        } else if (n < from || n - from > 20) { fallen.clear() }
        frame()
    }
    const play = on => {
        if (on && n >= count()) { go(0) }
        playing = on && count() > 0
        owed = 0
        last = performance.now()
        start.textContent = playing ? "Pause" : "Play"
        start.setAttribute("aria-label", start.textContent)
        frame()
    }
    const step = by => () => { play(false); go(n + by) }
    const start = button("Play", "Play", () => play(!playing))
    button("−1", "One draw back", step(-1))
    button("+1", "One more draw per proposal", step(1))
    button("+10", "Ten more draws per proposal", step(10))
    button("+100", "A hundred more draws per proposal", step(100))
    button("Start", "Back to the start", () => { play(false); go(0) })
    controls.append(speed, scrub)
    scrub.oninput = () => { play(false); go(Number(scrub.value)) }

    const words = () => {
        const {lanes, estimate, error, truth, known, range} = data()
        const [least, most] = [range[0] ?? -Infinity, range[1] ?? Infinity]
        const terms = lanes.map(lane => {
            const parts = lane.weight.slice(0, n).map(w => number(w * lane.unit, 3))
            const shown = n > 5 ? [...parts.slice(0, 3), "…", parts.at(-1)] : parts
            const sum = n ? `(${shown.join(" + ")}) / ${n}` : "no draw yet"
            const value = n ? ` = ${number(lane.mean[n - 1] * lane.size)}` : ""
            const mark = `<i style="background: ${lane.colour}"></i>`
            return `<p>${mark} <b>${lane.label}</b> ≈ ${sum}${value}</p>`
        })
        // As many digits as the standard error leaves, and one more.
        const spread = n >= FEW ? error[n - 1] : null
        const lost = spread > 0 ? Math.log10(Math.abs(estimate[n - 1]) / spread) : 2
        const digits = Math.min(Math.max(Math.ceil(lost) + 2, 4), 12)
        const aim = truth == null ? "" : `; ${known} ${number(truth, digits)}`
        // A standard error beyond the width of f's range says nothing.
        const after = n < FEW ? ""
            : spread == null ? ", standard error not judged"
            : spread > most - least ? " ± unusable (standard error)"
            : ` ± ${number(spread, 2)} (standard error)`
        const mu = n ? number(estimate[n - 1], digits) : "not known yet"
        const outside = n && (estimate[n - 1] < least || estimate[n - 1] > most)
            ? `; outside [${least}, ${most}], where f lies: the ratio of two separate estimates `
                + "can leave it" : ""
        return `${terms.join("")}<p><b>μ ≈ ${mu}</b>${after}${aim}${outside}</p>`
    }

    const paint = now => {
        const {lanes, curves, extent, colours, estimate, error, truth} = data()
        // Two standard errors to either side.
        const beside = sign => estimate.map((v, i) =>
            (v == null || error[i] == null ? null : v + 2 * sign * error[i]))
        const low = beside(-1), high = beside(1)
        const ratio = window.devicePixelRatio || 1
        const width = root.clientWidth || 600, wide = width > 700
        const across = wide ? width * 0.58 : width
        const densities = curves.x.length ? 150 : 0
        const below = TOP + densities + LANE * lanes.length + 34
        const height = wide ? below : below + 190
        if (canvas.width != Math.round(width * ratio) || canvas.height != Math.round(height * ratio)) {
            canvas.width = Math.round(width * ratio)
            canvas.height = Math.round(height * ratio)
            canvas.style.height = `${height}px`
        }
        const c = canvas.getContext("2d")
        c.setTransform(ratio, 0, 0, ratio, 0, 0)
        c.clearRect(0, 0, width, height)
        c.font = "12px system-ui, sans-serif"
        c.textBaseline = "middle"
        const x = value => LEFT + (value - extent[0]) / (extent[1] - extent[0]) * (across - LEFT - RIGHT)
        const base = TOP + densities
        const axis = (from, to, y, colour = colours.line) => {
            c.strokeStyle = colour
            c.beginPath()
            c.moveTo(from, y)
            c.lineTo(to, y)
            c.stroke()
        }
        // Densities: what is wanted as areas, what was learnt as lines.
        for (const {values, colour, area, dash} of curves.parts) {
            const y = value => base - Math.min(value / curves.top, 1) * (densities - 6)
            c.beginPath()
            let begun = false
            values.forEach((value, i) => {
                if (value == null) { return }
                const place = [x(curves.x[i]), y(value)]
                begun ? c.lineTo(...place) : c.moveTo(...place)
                begun = true
            })
            if (area) {
                c.lineTo(x(curves.x.at(-1)), base)
                c.lineTo(x(curves.x[0]), base)
                c.globalAlpha = 0.25
                c.fillStyle = colour
                c.fill()
                c.globalAlpha = 1
            } else {
                c.setLineDash(dash)
                c.lineWidth = 2
                c.strokeStyle = colour
                c.stroke()
                c.setLineDash([])
                c.lineWidth = 1
            }
        }
        // Draws: the area of a disc is its weight.
        let falling = false
        lanes.forEach((lane, row) => {
            const middle = base + LANE * (row + 0.5)
            axis(LEFT, across - RIGHT, base + LANE * (row + 1))
            c.fillStyle = colours.muted
            c.textAlign = "right"
            c.fillText(lane.proposal, LEFT - 10, middle)
            for (let i = 0; i < n; i++) {
                const weight = lane.weight[i]
                if (!(weight > 0)) { continue }
                const since = fallen.has(i) ? (now - fallen.get(i)) / FALL : 1
                if (since < 1) { falling = true }
                const place = middle + ((i * 0.618) % 1 - 0.5) * (LANE - 20)
                const ease = since < 1 ? since * since : 1
                c.beginPath()
                c.arc(x(lane.x[i]), TOP + (place - TOP) * ease, Math.min(1.2 + 3.2 * Math.sqrt(weight), 16), 0, 7)
                c.globalAlpha = weight > HEAVY ? 0.85 : 0.45
                c.fillStyle = weight > HEAVY ? colours.heavy : lane.colour
                c.fill()
                c.globalAlpha = 1
            }
        })
        for (const [i, when] of fallen) { if (now - when > FALL) { fallen.delete(i) } }
        c.fillStyle = colours.muted
        c.textAlign = "center"
        const bottom = base + LANE * lanes.length
        for (let i = 0; i <= 4; i++) {
            const value = extent[0] + (extent[1] - extent[0]) * i / 4
            c.fillText(number(value, 2), Math.min(x(value), across - RIGHT - 8), bottom + 12)
        }
        c.fillText(curves.label, (LEFT + across) / 2, bottom + 26)
        // The estimate along the draws, with its interval.
        const left = wide ? across + GAP + 64 : LEFT + 30, right = width - RIGHT
        const top = wide ? TOP + 8 : below + 16, foot = wide ? bottom : height - 40
        const values = [...low, ...high].filter((v, i) => v != null && (i % low.length) >= FEW - 1)
        if (truth != null) { values.push(truth) }
        if (values.length) {
            const ends = [Math.min(...values), Math.max(...values)]
            const pad = 0.08 * (ends[1] - ends[0]) || Math.abs(ends[0]) * 1e-3 || 1
            const [from, to] = [ends[0] - pad, ends[1] + pad]
            const y = value => foot - (Math.max(from, Math.min(to, value)) - from) / (to - from) * (foot - top)
            const at = i => left + Math.log(i) / Math.log(count()) * (right - left)
            axis(left, right, foot)
            c.fillStyle = colours.muted
            c.textAlign = "center"
            for (const tick of [1, 10, 100, count()]) {
                if (tick <= count()) { c.fillText(String(tick), at(tick), foot + 12) }
            }
            c.fillText("draws per proposal", (left + right) / 2, foot + 26)
            c.textAlign = "right"
            const size = Math.max(...ends.map(Math.abs)) || 1, range = ends[1] - ends[0] || size
            const digits = Math.min(Math.max(Math.ceil(Math.log10(size / range)) + 2, 2), 8)
            for (const value of [ends[0], (ends[0] + ends[1]) / 2, ends[1]]) {
                c.fillText(number(value, digits), left - 6, y(value))
            }
            c.textAlign = "left"
            c.fillText("estimate of μ ± 2 standard errors", left, top - 8)
            if (n >= FEW) {
                c.beginPath()
                for (let i = FEW; i <= n; i++) { c.lineTo(at(i), y(low[i - 1] ?? to)) }
                for (let i = n; i >= FEW; i--) { c.lineTo(at(i), y(high[i - 1] ?? from)) }
                c.globalAlpha = 0.2
                c.fillStyle = colours.estimate
                c.fill()
                c.globalAlpha = 1
            }
            c.beginPath()
            for (let i = 1; i <= n; i++) {
                if (estimate[i - 1] != null) { c.lineTo(at(i), y(estimate[i - 1])) }
            }
            c.strokeStyle = colours.estimate
            c.lineWidth = 2
            c.stroke()
            c.lineWidth = 1
            if (truth != null) {
                c.setLineDash([6, 4])
                axis(left, right, y(truth), colours.muted)
                c.setLineDash([])
                c.fillStyle = colours.muted
                c.textAlign = "right"
                c.fillText(data().known, right, y(truth) - 9)
            }
        }
        return falling
    }

    const describe = () => canvas.setAttribute("aria-label", count() == 0 ? "No draws yet."
        : `${n} of ${count()} draws per proposal below the densities, and the estimate of μ `
            + "along them.")

    const tick = now => {
        asked = 0
        if (data() == null || !root.isConnected) { playing = false; return }
        if (playing) {
            const slow = calm()
            owed += Math.min(now - last, 100) / 1000 * SPEEDS[speed.value]
            last = now
            // Without motion: in few, larger steps.
            const due = slow ? (owed >= 10 ? 10 : 0) : Math.floor(owed)
            if (due > 0) {
                owed -= due
                for (let i = n; i < Math.min(n + due, count()) && !slow && due < 4; i++) {
                    fallen.set(i, now)
                }
                n = Math.min(n + due, count())
            }
            if (n >= count()) { play(false) }
        }
        const falling = paint(now)
        scrub.value = n
        scrub.setAttribute("aria-valuetext", `${n} of ${count()}`)
        const text = words()
        if (sums.innerHTML != text) { sums.innerHTML = text }
        if (!playing) { describe() }
        root.dataset.n = n
        if (playing || falling) { frame() }
    }
    const frame = () => { if (!asked) { asked = requestAnimationFrame(tick) } }
    const fresh = () => {
        playing = false
        fallen.clear()
        start.textContent = "Play"
        // Nothing can be played before it has come.
        for (const each of controls.children) { each.disabled = count() == 0 }
        scrub.max = count()
        n = Math.min(n, count())
        // Without waiting for a frame: a picture never stands without words.
        describe()
        frame()
    }
    let drawn = String(data()?.estimate)
    model.on("data", () => {
        const before = drawn
        drawn = String(data()?.estimate)
        // The same draws in other colours, or along another coordinate, go on where they are.
        if (drawn == before) { frame(); return }
        n = 0
        fresh()
    })
    const watched = new ResizeObserver(frame)
    watched.observe(root)
    model.on("remove", () => { watched.disconnect(); playing = false })
    fresh()
    return root
}

// The page without a server: one state, and the parts that show it.

import {paint} from "../../js/live.mjs"
import {decoded} from "../../js/proposals.mjs"
import {Errors} from "./errors.mjs"
import {Handles} from "./handles.mjs"
import {Numbers} from "./numbers.mjs"
import {Picture, dark, describe} from "./pictures.mjs"
import {State} from "./state.mjs"
import {byId, element, number} from "./text.mjs"
import {Tour} from "./tour.mjs"

// Milliseconds without a move, after which draws are made, and error curves begun.
const QUIET = 100, LONGER = 350
const NARROW = "(max-width: 899.95px)" // as in the style

const state = new State(JSON.parse(byId("facts").textContent))
const evaluators = Object.fromEntries(
    Object.entries(state.facts.problems).map(([problem, {weights, extent}]) => {
        const stored = Object.entries(weights).map(([name, each]) => [name, decoded(each)])
        return [problem, {problem, extent, weights: Object.fromEntries(stored)}]
    }))
const densities = new Picture(byId("densities-picture"))
const errors = new Errors(state)
const handles = new Handles(state, move, settle)
const numbers = new Numbers(state, () => numbers.estimate(evaluators[state.name].weights, level))
const tour = new Tour(state, renew)
let opened = null, page = null, held = null, frame = null, quiet = null, longer = null, level = 0

/** A handle has moved: everything that needs no draw follows in the next frame. */
function move(input) {
    held = input
    repaint()
    hush()
    quiet = setTimeout(rest, QUIET)
    longer = setTimeout(() => errors.start(), LONGER)
}

/** Ends what is under way or to come: it is of another case. */
function hush() {
    clearTimeout(quiet)
    clearTimeout(longer)
    errors.stop()
}

function settle() {
    held = null
    repaint()
    keep()
}

function repaint() {
    frame ??= requestAnimationFrame(() => {
        frame = null
        level = handles.show(held)
        numbers.show(level)
        if (page != null) { paint(page, evaluators[state.name], state) }
    })
}

function rest() {
    const at = Object.entries({y: state.y, θ: state.theta}).filter(([, values]) => values.length)
        .map(([name, values]) => `${name} = ${values.map(v => number(v)).join(", ")}`)
    if (page != null) { describe(page, `Densities: proposals, posterior and g at ${at.join("; ")}.`) }
    numbers.estimate(evaluators[state.name].weights, level)
    keep()
}

/** Keeps the state in the address; not while a handle moves: browsers allow some 100 in 30 s. */
function keep() {
    if (held == null && location.hash != state.hash) { history.replaceState(null, "", state.hash) }
}

/** Shows the state after anything but a handle has changed it. */
async function renew() {
    hush()
    numbers.run = null
    tour.show()
    if (opened != state.name) { await open() }
    if (state.live) { move(null) } else { keep() }
}

/** Puts the pictures and handles of the state's problem into the page. */
async function open() {
    const {description, formula, densities: figures} = state.problem
    opened = state.name
    page = null
    byId("description").textContent = description
    byId("formula").innerHTML = formula
    handles.open()
    const [shown] = await Promise.all([densities.show(figures), errors.open()])
    page = shown
}

/** Goes where an address leads: to its case, or to its step's. */
function follow(hash) {
    const placed = state.read(hash)
    if (state.step >= 0 && !placed) { tour.go(state.step) } else { renew() }
}

byId("problems").append(...Object.entries(state.facts.problems).map(([name, {title}]) => {
    const input = element("input", {type: "radio", name: "problem", value: name})
    input.addEventListener("change", () => {
        state.open(name)
        state.step = -1
        renew()
    })
    return element("label", {}, input, ` ${title}`)
}))
byId("asked").open = !matchMedia(NARROW).matches
follow(location.hash)
// The event's own address: by now the page may have kept another.
addEventListener("hashchange", ({newURL}) => follow(new URL(newURL).hash))
dark.addEventListener("change", () => {
    opened = null
    renew()
})
// On a phone the handles stay at the bottom, over the end of the page.
new ResizeObserver(([{target}]) => {
    const covered = getComputedStyle(target).position == "fixed" ? target.offsetHeight : 0
    document.documentElement.style.setProperty("--stuck", `${covered}px`)
}).observe(byId("handles"))

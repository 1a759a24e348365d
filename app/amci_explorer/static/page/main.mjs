// The page without a server: one state, and the parts that show it.

import {decoded} from "../../js/proposals.mjs"
import {ErrorCurves} from "./curves.mjs"
import {Handles} from "./handles.mjs"
import {LinePicture} from "./line_picture.mjs"
import {PlanePicture} from "./plane_picture.mjs"
import {State} from "./state.mjs"
import {Strip} from "./strip.mjs"
import {byId, element, swatch} from "./text.mjs"
import {Theme} from "./theme.mjs"
import {Tour} from "./tour.mjs"

// Milliseconds without a move, after which draws are made, and error curves begun.
const QUIET = 100, LONGER = 350
const NARROW = "(max-width: 899.95px)" // as in the style
const AREAS = ["posterior", "target", "target_minus"]
const ON_THE_LINE = ["posterior", "target", "target_minus", "q2", "q1", "q1_minus"]
const IN_THE_PLANE = ["target", "q1"]

const facts = JSON.parse(byId("facts").textContent)
const state = new State(facts)
const weights = Object.fromEntries(Object.entries(facts.problems).map(([name, problem]) =>
    [name, Object.fromEntries(
        Object.entries(problem.weights).map(([key, stored]) => [key, decoded(stored)]))]))
const problems = Object.entries(facts.problems)
const inThePlane = name => facts.problems[name].coordinates.length > 1
const [planeName] = problems.map(([name]) => name).filter(inThePlane)

const handles = new Handles(state, move, settle)
const strip = new Strip(state, () => strip.run(weights[state.name], level))
const curves = new ErrorCurves(state)
const line = new LinePicture(byId("line-densities"), byId("line-ratio"), facts.styles)
const plane = new PlanePicture(byId("plane-whole"), byId("plane-closer"), facts.styles,
    facts.problems[planeName].coordinates)
const tour = new Tour(state, renew)
const theme = new Theme(byId("theme"), () => {
    tour.show(theme.dark)
    repaint()
})
let opened = null, held = null, frame = null, quiet = null, longer = null, level = 0

/** A handle has moved: everything that needs no draw follows in the next frame. */
function move(input) {
    held = input
    repaint()
    hush()
    quiet = setTimeout(rest, QUIET)
    longer = setTimeout(() => curves.start(), LONGER)
}

/** Ends what is under way or to come: it is of another case. */
function hush() {
    clearTimeout(quiet)
    clearTimeout(longer)
    curves.stop()
}

function settle() {
    held = null
    repaint()
    keep()
}

function repaint() { frame ??= requestAnimationFrame(paint) }

function paint() {
    frame = null
    level = handles.show(held)
    const picture = inThePlane(state.name) ? plane : line
    picture.draw(weights[state.name], state.name, state.y, state.theta, state.problem)
    strip.show(level)
}

function rest() {
    strip.run(weights[state.name], level)
    const picture = inThePlane(state.name) ? plane : line
    picture.describe()
    keep()
}

/** Keeps the state in the address; not while a handle moves: browsers allow some 100 in 30 s. */
function keep() {
    if (held == null && location.hash != state.hash) { history.replaceState(null, "", state.hash) }
}

/** Shows the state after anything but a handle has changed it. */
function renew() {
    if (opened != state.name) { open() }
    tour.show(theme.dark)
    strip.tiles = []
    hush()
    if (state.live) { move(null) } else { keep() }
}

function open() {
    opened = state.name
    const {description, formula, shapes} = state.problem, plain = inThePlane(state.name)
    byId("description").textContent = description
    byId("formula").innerHTML = formula
    byId("line").hidden = plain
    byId("plane").hidden = !plain
    const there = plain ? IN_THE_PLANE : ON_THE_LINE.filter(shape => {
        if (shape == "q2") { return "q2" in state.problem.weights }
        return !shape.endsWith("_minus") || "q1_minus" in state.problem.weights
    })
    list("legend", there.map(shape =>
        [swatch(shape, facts.styles[shape].dash, AREAS.includes(shape)), shapes[shape]]))
    const ways = [...state.problem.estimators.map(({name}) => name), "bound"]
    list("errors-legend", ways.map(way =>
        [swatch(way, facts.styles[way].dash), facts.styles[way].label]))
    handles.open()
}

const list = (id, items) =>
    byId(id).replaceChildren(...items.map(item => element("li", {}, ...item)))

/** Goes where an address leads: to its case, or to its step's. */
function follow(hash) {
    const placed = state.read(hash)
    if (state.step >= 0 && !placed) { tour.go(state.step) } else { renew() }
}

function begin() {
    byId("problems").append(...problems.map(([name, {title}]) => {
        const input = element("input", {type: "radio", name: "problem", value: name})
        input.addEventListener("change", () => {
            state.open(name)
            tour.leave()
            renew()
        })
        return element("label", {}, input, ` ${title}`)
    }))
    for (const {chart} of [{chart: line.top}, {chart: line.bottom}, ...plane.charts]) {
        chart.resized = repaint
    }
    byId("asked").open = !matchMedia(NARROW).matches
    follow(location.hash)
    // The event's own address: by now the page may have kept another.
    addEventListener("hashchange", ({newURL}) => follow(new URL(newURL).hash))
    // On a phone the handles stay at the bottom, over the end of the page.
    new ResizeObserver(([{target}]) => {
        const covered = getComputedStyle(target).position == "fixed" ? target.offsetHeight : 0
        document.documentElement.style.setProperty("--stuck", `${covered}px`)
    }).observe(byId("handles"))
}

begin()

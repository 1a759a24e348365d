// The page without a server: handles move a case, and with it its densities; a worker computes its
// error curves. The address holds it: #problem=…&y=…&theta=…

import {evaluatorOf, movedCase, paint} from "../../js/live.mjs"
import {TARGETS, mismatchRange, truth} from "../../js/targets.mjs"

const QUIET = 300 // milliseconds without a move, after which error curves are begun
const byId = id => document.getElementById(id)
const {problems, labels, ...plan} = JSON.parse(byId("facts").textContent)
const code = URL.createObjectURL(new Blob([byId("worker").textContent], {type: "text/javascript"}))
const dark = matchMedia("(prefers-color-scheme: dark)")
const clamp = (value, low, high) => Math.min(Math.max(value, low), high)
let name = null, here = null, evaluator = null, densities = null, errors = null
let handles = [], waiting = null, worker = null

/** Draws a figure in the place of what is there; gives its document. */
async function draw(id, figures) {
    byId(id).replaceChildren()
    const item = figures[dark.matches ? "dark" : "light"]
    return (await Bokeh.embed.embed_item(item, byId(id))).roots[0].model.document
}

/** Shows a problem, where it opens. */
async function open(wanted) {
    const problem = problems[wanted]
    name = wanted
    here = structuredClone(problem.opening)
    evaluator = {...evaluatorOf({problem: name, proposals: problem.weights}), extent: problem.extent}
    densities = errors = null
    byId("problem").value = name
    byId("description").textContent = problem.description
    byId("formula").innerHTML = problem.formula
    byId("handles").replaceChildren()
    handles = problem.handles.map(handle)
    const drawn = await Promise.all(
        ["densities", "errors"].map(part => draw(`${part}-picture`, problem[part])))
    if (name == wanted) { [densities, errors] = drawn }
}

/** A native slider of y, theta or the mismatch. */
function handle({variable, label, low, high, step}) {
    const part = byId("handle").content.cloneNode(true).firstElementChild
    const input = part.querySelector("input"), output = part.querySelector("output")
    part.prepend(label)
    Object.assign(input, {min: low, max: high, step})
    input.addEventListener("input", () => {
        here = movedCase({problem: name}, here, {variable, value: Number(input.value)})
        show(input)
    })
    byId("handles").append(part)
    return {variable, input, output}
}

/** Shows the case; the handle that is held stays where it is. */
function show(held) {
    const target = TARGETS[name], {y, theta} = here, level = target.mismatch(y, theta)
    const values = {y: y[0], theta: theta[0], level}
    for (const {variable, input, output} of handles) {
        if (variable == "level") {
            const ends = mismatchRange(target, y, theta)
            Object.assign(input, {min: Math.min(...ends), max: Math.max(...ends)})
        }
        if (input != held) { input.value = values[variable] }
        output.textContent = variable == "level" ? `${level.toFixed(2)} nats`
            : values[variable].toFixed(2)
    }
    byId("truth").textContent = `Truth μ = ${truth(target, y, theta).toPrecision(4)}`
    if (densities) { paint(densities, evaluator, here) }
    clearTimeout(waiting)
    worker?.terminate()
    byId("errors-status").textContent = "…"
    waiting = setTimeout(settle, QUIET)
}

/** Keeps the case in the address, and begins its error curves. */
function settle() {
    const {y, theta} = here
    history.replaceState(null, "", `#problem=${name}&y=${y.map(short)}&theta=${theta.map(short)}`)
    worker = new Worker(code)
    worker.onmessage = ({data: {runs, curves}}) => {
        byId("errors-status").textContent = `${runs} of ${plan.runs} runs`
        if (errors) { fill(curves, y, theta) }
    }
    const {weights, estimators} = problems[name]
    worker.postMessage({weights, name, y, theta, plan: {...plan, estimators}})
}

const short = value => Number(value.toPrecision(6))

/** Fills the picture as `amci_explorer.plots.error_curves` does. */
function fill(curves, y, theta) {
    const {budgets: draws} = plan, [figure] = errors.roots()[0].children
    const target = TARGETS[name], unit = truth(target, y, theta) || 1
    const bound = draws.map(total => ({mean: (target.deviation(y, theta) / unit) ** 2 / total}))
    const ends = Object.entries({...curves, bound}).map(([way, points]) => {
        // Faint, and above it where the runs determine the error.
        const [line, sure] = figure.renderers.filter(each => each.name == labels[way])
        const error = points.map(({mean}) => 100 * Math.sqrt(mean)), color = line.glyph.line_color.value
        line.data_source.data = {draws, error, low: error, median: error, high: error}
        const firm = points.map(({determined = true}, i) => determined ? error[i] : NaN)
        sure.data_source.data = {draws, firm}
        return {x: draws.at(-1), y: error.at(-1), text: labels[way], text_color: color, error}
    })
    const every = ends.flatMap(({error}) => error).filter(error => error > 0)
    const start = 10 ** Math.floor(Math.log10(Math.min(...every))) / 1.3
    const end = 10 ** Math.ceil(Math.log10(Math.min(Math.max(...every), 3162))) * 1.3
    figure.y_range.setv({start, end, reset_start: start, reset_end: end})
    // Names stand apart, each pushed up by the one below it.
    const apart = (end / start) ** 0.055
    ends.sort((a, b) => a.y - b.y).forEach((each, i) => {
        each.y = Math.max(each.y, i ? ends[i - 1].y * apart : start * apart ** 0.5)
    })
    const names = figure.renderers.find(each => each.glyph.type == "Text").data_source
    const rows = ends.filter(each => each.y <= end)
    names.data = Object.fromEntries(
        Object.keys(names.data).map(key => [key, rows.map(row => row[key])]))
    const said = ends.map(({text, error}) => `${text} ${error.at(-1).toPrecision(2)} %`).join(", ")
    figure.html_attributes = {role: "img",
        "aria-label": `Error at ${draws.at(-1)} total draws, relative to μ: ${said}.`}
}

/** Goes to the case of the address; what is wrong in it is left out. */
async function follow() {
    const said = new URLSearchParams(location.hash.slice(1)), wanted = said.get("problem")
    await open(Object.hasOwn(problems, wanted) ? wanted : Object.keys(problems)[0])
    for (const {variable, low, high} of problems[name].handles) {
        const value = Number.parseFloat(said.get(variable))
        if (Number.isFinite(value)) { here[variable] = [clamp(value, low, high)] }
    }
    show()
}

byId("problem").addEventListener("change", ({target}) => open(target.value).then(() => show()))
addEventListener("hashchange", follow)
dark.addEventListener("change", follow)
follow()

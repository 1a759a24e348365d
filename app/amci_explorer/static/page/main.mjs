// The page without a server: handles move a case, and with it its densities; a worker computes its
// error curves. The address holds it: #problem=…&y=…&theta=…

import {evaluatorOf, movedCase, paint} from "../../js/live.mjs"
import {TARGETS, mismatchRange, truth} from "../../js/targets.mjs"

const QUIET = 300 // milliseconds without a move, after which error curves are begun
const ROWS = {"16px": 20, "13px": 15} // heights of rows of text by their size, in pixels
const byId = id => document.getElementById(id)
const {problems, names, ...plan} = JSON.parse(byId("facts").textContent)
const code = URL.createObjectURL(new Blob([byId("worker").textContent], {type: "text/javascript"}))
const dark = matchMedia("(prefers-color-scheme: dark)")
const clamp = (value, low, high) => Math.min(Math.max(value, low), high)
let name = null, here = null, evaluator = null, densities = null, errors = null
let handles = [], waiting = null, worker = null, curves = null, total = plan.budgets.indexOf(100)

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
function handle({variable, label, start, end, step}) {
    const part = byId("handle").content.cloneNode(true).firstElementChild
    const input = part.querySelector("input"), output = part.querySelector("output")
    part.prepend(label)
    Object.assign(input, {min: start, max: end, step})
    input.addEventListener("input", () => {
        if (variable == "draws") {
            total = Number(input.value)
            output.textContent = plan.budgets[total].toLocaleString("en")
            return void (curves && fill())
        }
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
        if (variable == "draws") {
            input.value = total
            output.textContent = plan.budgets[total].toLocaleString("en")
            continue
        }
        if (variable == "level") {
            const ends = mismatchRange(target, y, theta)
            Object.assign(input, {min: Math.min(...ends), max: Math.max(...ends)})
        }
        if (input != held) { input.value = values[variable] }
        output.textContent = variable == "level" ? `${level.toFixed(2)} nats`
            : values[variable].toFixed(2)
    }
    byId("headline").textContent = headline(truth(target, y, theta))
    if (densities) { paint(densities, evaluator, here) }
    clearTimeout(waiting)
    worker?.terminate()
    byId("errors-status").textContent = "…"
    waiting = setTimeout(settle, QUIET)
}

/** The question and its answer, as `amci_explorer.words.headline` writes them. */
function headline(mu) {
    const {question, chance} = problems[name], {y, theta} = here
    const said = {seen: `y = ${three(y[0])}`, threshold: three(theta[0]), theta: theta[0].toFixed(2)}
    const asked = question.replace(/\{(\w+)[^}]*\}/g, (_, name) => said[name])
    let answer = mu.toFixed(2)
    if (chance && mu >= 0.1 && mu <= 0.99) { answer = `In ${(100 * mu).toFixed(0)} of 100 cases` }
    else if (chance) { answer = `${mu < 0.5 ? "One" : "All but one"} in ${many(1 / Math.min(mu, 1 - mu))}` }
    return `${asked} ${answer}.`.replace(/-(?=[\d.])/g, "−")
}

const three = value => String(Number(value.toPrecision(3)))

/** A number for reading: 4,915; 714,000; 168 billion. */
function many(n) {
    const maximumSignificantDigits = n < 1e4 ? Math.ceil(Math.log10(n)) : 3
    const options = n < 1e6 ? {} : {notation: n < 1e15 ? "compact" : "scientific", compactDisplay: "long"}
    const text = n.toLocaleString("en", {...options, maximumSignificantDigits})
    return text.replace(/E(\d+)/, (_, power) => ` × 10${[...power].map(d => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]).join("")}`)
}

/** Keeps the case in the address, and begins its error curves. */
function settle() {
    const {y, theta} = here
    history.replaceState(null, "", `#problem=${name}&y=${y.map(short)}&theta=${theta.map(short)}`)
    worker = new Worker(code)
    worker.onmessage = ({data: {runs, curves: measured}}) => {
        byId("errors-status").textContent = `${runs} of ${plan.runs} runs`
        const target = TARGETS[name], unit = truth(target, y, theta) || 1
        const bound = plan.budgets.map(total =>
            ({mean: (target.deviation(y, theta) / unit) ** 2 / total, determined: true}))
        curves = {...measured, bound}
        if (errors) { fill() }
    }
    const {weights, estimators} = problems[name]
    worker.postMessage({weights, name, y, theta, plan: {...plan, estimators}})
}

const short = value => Number(value.toPrecision(6))

/** An error in per cent as `amci_explorer.words.curves.value` writes it. */
function said({mean, determined, rough}) {
    const percent = 100 * Math.sqrt(mean), maximumSignificantDigits = determined ? 2 : 1
    if (percent < 1e-6) { return "exact" }
    if (!determined && !rough) { return "too few runs" }
    const text = percent.toLocaleString("en", {maximumSignificantDigits})
    return `${determined ? "" : "about "}${text} %`
}

/** Fills the picture as `amci_explorer.plots.errors.ErrorPicture` does. */
function fill() {
    const {budgets: draws, runs} = plan, source = part => errors.get_model_by_name(`errors-${part}`)
    const [figure] = errors.roots()[0].children
    const lines = Object.entries(curves).map(([way, points]) => {
        const {glyph, data_source} = figure.renderers.find(each => each.data_source == source(way))
        const error = points.map(({mean}) => 100 * Math.sqrt(mean)), n = draws.map(() => runs)
        const firm = points.map(({determined}, i) => determined && way != "bound" ? error[i] : NaN)
        data_source.data = {draws, error, firm, low: error, median: error, high: error, runs: n}
        const colour = glyph.fill_color.value ?? glyph.fill_color
        return {error, colour, way, value: said(points[total]), at: error.at(-1)}
    })
    const all = lines.flatMap(({error}) => error).filter(error => error > 0)
    const start = 10 ** Math.floor(Math.log10(Math.min(...all)))
    const end = 10 ** Math.ceil(Math.log10(Math.min(Math.max(...all), 3162)))
    figure.y_range.setv({start, end, reset_start: start, reset_end: end})
    figure.center.find(each => each.type == "Span").location = draws[total]
    const column = (rows, name) => rows.map(row => row[name])
    const shown = lines.filter(({at}) => at <= end).sort((a, b) => a.at - b.at)
    source("dots").data = {
        x: shown.map(() => draws[total]), y: shown.map(({error}) => error[total]),
        colour: column(shown, "colour"),
    }
    // From below, each as near to its line as the one under it lets it be.
    const height = figure.inner_height ?? 340, pixels = height / Math.log(end / start)
    const rows = []
    let least = 0
    for (const {at, value, way, colour} of shown) {
        const texts = [[value, "16px", "bold"], ...names[way].split("\n").map(row => [row, "13px", "normal"])]
        const tall = texts.reduce((sum, [, size]) => sum + ROWS[size], 0)
        let top = Math.max(pixels * Math.log(at / start) + tall / 2, least + tall)
        least = top
        for (const [text, size, style] of texts) {
            rows.push({x: draws.at(-1), y: start * Math.exp(top / pixels), text, colour, size, style})
            top -= ROWS[size]
        }
    }
    source("labels").data = Object.fromEntries(
        ["x", "y", "text", "colour", "size", "style"].map(name => [name, column(rows, name)]))
    const told = lines.map(({way, value}) => `${names[way].replace("\n", " ")} ${value}`).join(", ")
    figure.html_attributes = {role: "img",
        "aria-label": `Relative error with ${draws[total]} draws: ${told}.`}
}

/** Goes to the case of the address; what is wrong in it is left out. */
async function follow() {
    const said = new URLSearchParams(location.hash.slice(1)), wanted = said.get("problem")
    await open(Object.hasOwn(problems, wanted) ? wanted : Object.keys(problems)[0])
    for (const {variable, start, end} of problems[name].handles) {
        const value = Number.parseFloat(said.get(variable))
        if (Number.isFinite(value)) { here[variable] = [clamp(value, start, end)] }
    }
    show()
}

byId("problem").addEventListener("change", ({target}) => open(target.value).then(() => show()))
addEventListener("hashchange", follow)
dark.addEventListener("change", follow)
follow()

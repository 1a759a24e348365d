// Numbers and elements, as the page writes them.

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
const minus = text => text.replaceAll("-", "−")
const raised = value =>
    String(value).replace("-", "⁻").replace(/\d/g, digit => RAISED[digit])

/** A number for reading: 0.0234, 2.03 × 10⁻⁴. */
export function number(value, digits = 3) {
    if (Number.isNaN(value)) { return "?" }
    if (!Number.isFinite(value)) { return value > 0 ? "∞" : "−∞" }
    if (value == 0) { return "0" }
    if (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4) {
        return minus(String(Number(value.toPrecision(digits))))
    }
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e")
    return `${minus(mantissa)} × 10${raised(Number(exponent))}`
}

/** A relative error in words: 0.2 %, 35 %, 300 times too large. */
export function relative(error) {
    if (!Number.isFinite(error)) { return "μ is 0" }
    if (Math.abs(error) < 1e-12) { return "0" }
    if (Math.abs(error) < 0.1) { return `${number(100 * error, 2)} %` }
    if (Math.abs(error) < 100) { return minus(`${(100 * error).toFixed(0)} %`) }
    const times = `${number(Math.abs(error + 1), 2)} times too large`
    return error < 0 ? `${times}, wrong sign` : times
}

/** An element with attributes and children. */
export function element(name, attributes = {}, ...children) {
    const made = document.createElement(name)
    for (const [key, value] of Object.entries(attributes)) { made.setAttribute(key, value) }
    made.append(...children)
    return made
}

/** The element of the page with that id. */
export const byId = id => document.getElementById(id)

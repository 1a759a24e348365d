// What is chosen on the page, and the address that holds it: #problem=…&y=…&theta=…&step=…

const clamp = (value, {low, high}) => Math.min(Math.max(value, low), high)
const short = value => Number(value.toPrecision(6))

export class State {
    /** The page's choice, as its facts open it and its address says. */
    constructor(facts) {
        this.facts = facts
        this.step = -1
        this.open(Object.keys(facts.problems)[0])
    }

    get problem() { return this.facts.problems[this.name] }

    /** Switches to a problem, where it opens. */
    open(name) {
        this.name = name
        const {y, theta} = this.problem.opening
        this.y = [...y]
        this.theta = [...theta]
    }

    /** Sets y and theta, each within its ends; what is missing or no number stays. */
    place({y = [], theta = []}) {
        for (const handle of this.problem.handles) {
            const wanted = (handle.of == "y" ? y : theta)[handle.index]
            if (Number.isFinite(wanted)) { this[handle.of][handle.index] = clamp(wanted, handle) }
        }
    }

    /** Reads an address' part after the hash; whatever is wrong in it is left out.
     *
     * Says whether the address has a case of its own. */
    read(hash) {
        const said = new URLSearchParams(hash.replace(/^#/, ""))
        const numbers = name => (said.get(name) ?? "").split(",").filter(v => v != "").map(Number)
        const step = this.facts.steps.findIndex(({name}) => name == said.get("step"))
        this.step = step
        if (Object.hasOwn(this.facts.problems, said.get("problem"))) { this.open(said.get("problem")) }
        this.place({y: numbers("y"), theta: numbers("theta")})
        return said.has("problem")
    }

    /** Whether the page shows the case by itself; a step may be about another problem. */
    get live() { return this.facts.steps[this.step]?.live !== false }

    /** The address' part after the hash. */
    get hash() {
        const said = new URLSearchParams(this.live ? {problem: this.name} : {})
        for (const name of this.live ? ["y", "theta"] : []) {
            if (this[name].length) { said.set(name, this[name].map(short).join(",")) }
        }
        if (this.step >= 0) { said.set("step", this.facts.steps[this.step].name) }
        return `#${said.toString().replaceAll("%2C", ",")}`
    }
}

// Light and dark: as the system has it, until the visitor chooses.

const KEY = "amci-theme"
// Some frames are denied storage.
const stored = use => { try { return use(localStorage) } catch { return null } }

export class Theme {
    /** `changed` is called when the page has another theme than before. */
    constructor(button, changed) {
        const system = matchMedia("(prefers-color-scheme: dark)")
        const kept = stored(storage => storage.getItem(KEY))
        this.dark = kept == null ? system.matches : kept == "dark"
        const show = () => {
            document.documentElement.dataset.theme = this.dark ? "dark" : "light"
            button.setAttribute("aria-pressed", this.dark)
        }
        const choose = dark => {
            this.dark = dark
            show()
            changed()
        }
        button.addEventListener("click", () => {
            choose(!this.dark)
            stored(storage => storage.setItem(KEY, this.dark ? "dark" : "light"))
        })
        system.addEventListener("change", ({matches}) => {
            if (stored(storage => storage.getItem(KEY)) == null) { choose(matches) }
        })
        show()
    }
}

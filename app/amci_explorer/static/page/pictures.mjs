// Bokeh's figures in the page: each is there for a light and for a dark page.

export const dark = matchMedia("(prefers-color-scheme: dark)")

export class Picture {
    /** A place for a picture, empty. */
    constructor(host) {
        this.host = host
        this.shown = Promise.resolve(null)
    }

    /** Puts a picture there in place of the one before; gives its document. */
    show(figures) {
        this.shown = this.shown.then(async views => {
            views?.clear()
            this.host.replaceChildren()
            return Bokeh.embed.embed_item(figures[dark.matches ? "dark" : "light"], this.host)
        })
        return this.shown.then(views => views.roots[0].model.document)
    }
}

/** Renews the text alternative of every figure of a document. */
export function describe(page, text) {
    for (const figure of page.roots()[0].children) {
        figure.html_attributes = {role: "img", "aria-label": text}
    }
}

// The address is replaced, not pushed: Back leads to where the visitor came from.
export function render({model}) {
    const write = () => {
        const address = new URL(window.location.href)
        for (const name of model.fields) { address.searchParams.delete(name) }
        for (const [name, value] of new URLSearchParams(model.query)) {
            address.searchParams.set(name, value)
        }
        window.history.replaceState(window.history.state, "", address)
    }
    model.on("query", write)
    window.case_in_python = () => model.script
}

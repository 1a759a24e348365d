// The address is replaced, not pushed: Back leads to where the visitor came from.
export function render({model}) {
    model.on("link", () => {
        const address = new URL(window.location.href)
        for (const name of model.names) { address.searchParams.delete(name) }
        for (const [name, value] of new URLSearchParams(model.link)) {
            address.searchParams.set(name, value)
        }
        window.history.replaceState(window.history.state, "", address)
    })
    window.case_in_python = () => model.script
}

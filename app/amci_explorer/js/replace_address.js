// The address is replaced, not pushed: Back leads to where the visitor came from.
const address = new URL(window.location.href)
const asked = new URLSearchParams(cb_obj.tags[0])
for (const name of ["problem", ...%s]) { address.searchParams.delete(name) }
for (const [name, value] of asked) { address.searchParams.set(name, value) }
window.history.replaceState(window.history.state, "", address)

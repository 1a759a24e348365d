// Whether any of the place that it covers is on the screen.
export function render({model, view}) {
    const look = entries => { model.seen = entries.at(-1).isIntersecting }
    new IntersectionObserver(look).observe(view.el)
}

// Projector: larger type, thicker lines and no tools, for the last row; pressed again it is undone.
// The server need not know of it.
const root = document.documentElement
const on = root.dataset.projector == null
if (on) { root.dataset.projector = "" } else { delete root.dataset.projector }
cb_obj.origin.data.label = on ? "Desk" : "Projector"
const WIDER = 1.6, LARGER = 1.35
const alone = {sync: false}
const wider = width => on ? width * WIDER : width / WIDER
const larger = size => size?.replace?.(/[\d.]+/, n => Math.round(10 * n * LARGER ** (on ? 1 : -1)) / 10)
for (const model of Bokeh.documents[0].all_models) {
    if (["Line", "MultiLine", "Span"].includes(model.type)) {
        const width = model.line_width.value ?? model.line_width
        if (typeof width == "number") { model.setv({line_width: wider(width)}, alone) }
    }
    for (const name of ["axis_label_text_font_size", "major_label_text_font_size"]) {
        if (typeof model[name] == "string") { model.setv({[name]: larger(model[name])}, alone) }
    }
    if (model.type == "LabelSet") {
        model.setv({text_font_size: {value: larger(model.text_font_size.value)}}, alone)
    }
    if (model.type == "Legend") {
        model.setv({label_text_font_size: larger(model.label_text_font_size)}, alone)
    }
    if (model.type == "Figure") { model.toolbar.setv({visible: !on}, alone) }
}

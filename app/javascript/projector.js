// Projector: larger type, thicker lines and no tools, for the last row; pressed again it is undone.
const root = document.documentElement
const on = root.dataset.projector == null
if (on) { root.dataset.projector = "" } else { delete root.dataset.projector }
cb_obj.origin.data.label = on ? "Desk" : "Projector"
const times = on ? 1.6 : 1 / 1.6
const larger = size => size?.replace?.(/[\d.]+/, n => String(Math.round(10 * n * (on ? 1.35 : 1 / 1.35)) / 10))
// The server keeps its own widths and sizes: it is not told, and has no such values.
const set = (model, values) => model.setv(values, {sync: false})
for (const model of Bokeh.documents[0].all_models) {
    if (model.type == "Line" || model.type == "MultiLine" || model.type == "Span") {
        const width = model.line_width.value ?? model.line_width
        if (typeof width == "number") {
            const wider = width * times
            set(model, {line_width: typeof model.line_width == "number" ? wider : {value: wider}})
        }
    }
    if (model.axis_label_text_font_size != null) {
        for (const name of ["axis_label_text_font_size", "major_label_text_font_size"]) {
            set(model, {[name]: larger(model[name])})
        }
    }
    if (model.type == "LabelSet") {
        set(model, {text_font_size: {value: larger(model.text_font_size.value)}})
    }
    if (model.type == "Legend") {
        set(model, {label_text_font_size: larger(model.label_text_font_size)})
    }
    if (model.type == "Figure") { set(model.toolbar, {visible: !on}) }
}

r"""Train: proposals for the open problem, trained while the user watches."""

from __future__ import annotations

__all__ = ["TrainCard"]

from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import param
from bokeh.models import HoverTool, Range1d

from amci_core.training import Choices, form_names
from amci_core.training.choices import terms_of
from amci_explorer.colours import SHAPES
from amci_explorer.compute.training import TrainingRequest, TrainingSession, zipped
from amci_explorer.plots.style import decades, empty_source, set_range
from amci_explorer.state.case import Case
from amci_explorer.text import duration, number
from amci_explorer.views.card import Card
from amci_explorer.views.details import Status
from amci_explorer.views.figures import empty_figure, pane
from amci_explorer.views.inputs import download, flat_button, select
from amci_explorer.views.layout import HTML, column, row, side_by_side
from amci_explorer.words.script import script

INTRODUCTION = """
<p>Trains proposals for this problem. They appear in the list of proposals, and the pictures follow
as they improve.</p>
"""
TEXT = "p { margin: 0; font-size: var(--text); line-height: 1.5; }"
MINUTES = {"20 seconds": 1 / 3, "1 minute": 1.0, "3 minutes": 3.0, "10 minutes": 10.0}
MINUTES |= {"30 minutes": 30.0, "1 hour": 60.0}
# The style and the label of each proposal.
STYLES = {
    "q1_plus": ("q1", "q₁"),
    "q1_minus": ("q1_minus", "q₁⁻"),
    "q2": ("q2", "q₂"),
    "q1_complement": ("q1_complement", "q₁ᶜ"),
}
AUTOMATIC = "automatic"
# Lowest and highest of the relative variances that are drawn.
HEIGHTS = 1e-8, 1e4
COLUMNS = ("seconds", "best", "relative_variance")


class TrainCard(Card):
    """The training form, its progress, and what it yields."""

    name = param.String("train")
    unit = ""
    has_table = False
    drawn = ("variant",)

    def content(self) -> list[Any]:
        self._training = self.results.training
        self.form = {
            "minutes": select("Training time", MINUTES),
            "family": select("Family", [AUTOMATIC]),
        }
        buttons = {
            "Start": lambda _: self._training.start(self.read()),
            "Stop": lambda _: self._training.stop(),
            "Use these proposals": lambda _: self._training.use(),
        }
        self.buttons = {
            name: flat_button(name, act, disabled=True, sizing_mode=None)
            for name, act in buttons.items()
        }
        self.download = download("Download", self._zip, disabled=True)
        self.progress_line = Status("training", "Training")
        self.sources = {name: empty_source(f"learning-{name}", COLUMNS) for name in STYLES}
        self.picture = self._picture()
        self._training.watch = self.redraw
        wraps = ":host { flex-wrap: wrap; }"
        return [
            HTML(INTRODUCTION, TEXT),
            side_by_side(*self.form.values(), least=148, gap=12),
            row(*self.buttons.values(), self.download, gap=8, stylesheet=wraps),
            column(self.progress_line, pane(self.picture), margin=(8, 0, 0, 0)),
        ]

    def asked(self, case: Case) -> None:
        """Nothing: it trains."""

    def clear(self) -> None:
        problem, family = self.state.problem, self.form["family"]
        try:
            names = form_names(problem)
        except ValueError:  # the training says what is wrong
            names = ()
        options = [AUTOMATIC, *names]
        value = family.value if family.value in names else AUTOMATIC
        family.param.update(options=options, value=value)
        for item, name in zip(self.picture.legend[0].items, STYLES, strict=True):
            item.visible = name in terms_of(problem)

    def read(self) -> TrainingRequest:
        """The training that the form asks for."""
        chosen = {name: field.value for name, field in self.form.items()}
        if chosen["family"] == AUTOMATIC:
            chosen["family"] = None
        return TrainingRequest(self.state.settings, Choices(**chosen))

    def _picture(self) -> Any:
        """Relative variances against seconds of training, a curve for each proposal."""
        shown = empty_figure(
            "learning",
            alternative="Relative variance against seconds of training.",
            x_label="seconds of training",
            y_label="relative variance, held out",
            height=250,
            tools="box_zoom,reset",
            x_range=Range1d(),
            y_range=Range1d(),
            y_axis_type="log",
        )
        for proposal, (style, label) in STYLES.items():
            looks = {"source": self.sources[proposal], "line_dash": list(SHAPES[style].dash)}
            best = shown.line("seconds", "best", line_width=2.2, legend_label=label, **looks)
            now = shown.line("seconds", "relative_variance", line_alpha=0.4, **looks)
            for line in (best, now):
                self.theme.follow(line.glyph, SHAPES[style], "line_color")
            tips = [("seconds", "@seconds{0.0}"), ("best", "@best{0.00e+0}")]
            shown.add_tools(HoverTool(renderers=[best], tooltips=tips, visible=False))
        return shown

    def redraw(self) -> None:
        """Shows where the training stands."""
        training, request = self._training, self._training.request
        reports = pd.DataFrame(training.reports, columns=["proposal", "left", *COLUMNS])
        of_another = request is not None and request.problem != self.state.problem.name
        words = about_training(training)
        share = None
        if training.busy and training.reports:
            seconds, left = training.reports[-1]["seconds"], training.reports[-1]["left"]
            share = seconds / max(seconds + left, 1e-9)
        self.progress_line.say(
            f"For {request.problem}: {words}" if request and of_another else words,
            share,
            alert=bool(training.message),
        )
        chosen = training.proposals is not None and (
            of_another or self.state.variant != training.proposals.variant
        )
        enabled = (not training.busy, training.busy and not training.stopped, chosen)
        for button, can in zip(self.buttons.values(), enabled, strict=True):
            button.disabled = not can
        if training.proposals is not None:
            self.download.param.update(
                disabled=False, filename=f"{training.proposals.variant}.zip"
            )
        for proposal, source in self.sources.items():
            rows = reports[reports["proposal"] == proposal]
            source.data = {c: rows[c].to_numpy(float) for c in COLUMNS}
        longest = max(reports["seconds"], default=60 * self.form["minutes"].value)
        low, high = decades(reports[["best", "relative_variance"]].to_numpy(float), *HEIGHTS)
        set_range(self.picture.x_range, 0, longest)
        set_range(self.picture.y_range, low, high)

    def _zip(self) -> BytesIO:
        """The trained proposals, and a script for the case at which their training began."""
        proposals, request = self._training.proposals, self._training.request
        if proposals is None or request is None:
            return BytesIO()
        return zipped(proposals, script(replace(request.settings, variant=proposals.variant)))


def about_training(training: TrainingSession) -> str:
    """The state of a training, in a sentence or two."""
    variant = "" if training.proposals is None else training.proposals.variant
    last = training.reports[-1] if training.reports else None
    if training.request is None:
        return "No training is running."
    if training.waiting:
        return "Waiting for another training to end."
    if training.busy and training.stopped:
        return "Stopping."
    if training.busy and last is None:
        return training.plan or "Starting."
    if training.busy and last is not None:
        best = np.nan if last["best"] is None else last["best"]
        return (
            f"{duration(last['left'])} left. {last['proposal']}, {last['stage']}, step "
            f"{last['step']:,}: relative variance on held-out cases {number(best)}."
        )
    if training.message:
        kept = f" {variant} holds the best so far." if variant else ""
        return f"The training failed: {training.message}.{kept}"
    if not variant or last is None:
        return "Stopped before the first proposals were saved."
    if training.stopped:
        return f"Stopped. {variant} is the best so far, not checked on held-out cases."
    proposals: Any = training.proposals
    said = (text for text in (proposals.verdict, proposals.cost) if text)
    sentences = (f"{text[:1].upper()}{text[1:]}" for text in said)
    return ". ".join([f"{variant} was trained in {duration(last['seconds'])}", *sentences])

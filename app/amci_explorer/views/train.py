r"""Train: proposals for the open problem, trained while the user watches."""

from __future__ import annotations

__all__ = ["TrainCard"]

from collections.abc import Callable
from functools import lru_cache
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, DataRange1d

from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.training import Choices, form_names
from amci_core.training.choices import terms_of
from amci_explorer.colours import SHAPES
from amci_explorer.compute.training import (
    MINUTES,
    TrainingRequest,
    TrainingSession,
    check_name,
    zipped,
)
from amci_explorer.problems import registry
from amci_explorer.state.links import number as read_number
from amci_explorer.state.links import read as read_choice
from amci_explorer.state.state import State
from amci_explorer.text import number
from amci_explorer.views.card import Card
from amci_explorer.views.figures import add_hover, describe, pane, picture
from amci_explorer.views.inputs import Typed, flat_button, select
from amci_explorer.views.layout import HTML, column, row, side_by_side
from amci_explorer.views.status import Status
from amci_explorer.words import CARDS, HELP

INTRODUCTION = (
    "Trains proposals for this problem while you watch. They appear in the list of proposals, "
    "and the whole page follows as they improve."
)
TEXT = """
p { margin: 0 0 8px 0; font-size: var(--text); line-height: 1.5; max-width: 90ch; }
details { font-size: var(--small); line-height: 1.5; }
summary { cursor: pointer; width: max-content; }
ol { margin: 4px 0 0 0; padding-left: 1.6rem; overflow-wrap: anywhere; max-width: 100ch; }
"""
AUTOMATIC = "automatic"
TEXTS = {
    "bins": ("Bins", "", "4 to 128; empty for the default."),
    "width": ("Width", "", "Hidden units per layer, 4 to 1024. Blank: default."),
    "minutes": ("Minutes", "0.5", "Training time; 0.33 is 20 seconds."),
    "seed": ("Training seed", "0", "Another seed gives other weights."),
    "name": ("Name", "learnt", "Letters, digits and dashes, at most 34."),
}
# The style and the label of each proposal.
STYLES = {
    "q1_plus": ("q1", "q₁"),
    "q1_minus": ("q1_minus", "q₁⁻"),
    "q2": ("q2", "q₂"),
    "q1_complement": ("q1_complement", "q₁ᶜ"),
}
COLUMNS = ("seconds", "best", "relative_variance", "loss")


class TrainCard(Card):
    """The training form, its progress, and what it yields."""

    name = "train"
    title = CARDS["train"]
    unit = ""
    has_table = False
    help = HELP["train"]
    drawn = ()

    def content(self) -> list[Any]:
        self.family = select("Family", {AUTOMATIC: ""}, margin=(6, 0))
        self.fields = {name: Typed(*texts) for name, texts in TEXTS.items()}
        own: dict[str, Any] = {"sizing_mode": "fixed", "width": 90}
        self.start_button = flat_button("Start", self._start, **own | {"variant": "contained"})
        self.stop_button = flat_button("Stop", self._stop, disabled=True, **own)
        self.download = pmui.FileDownload(
            label="Download",
            callback=lambda: BytesIO() if self._newest is None else zipped(self._newest),
            filename="proposals.zip",
            disabled=True,
            size="small",
            variant="outlined",
            margin=0,
        )
        self.progress_line = Status("training", "Training")
        self.said = HTML("", TEXT)
        self.sources = {
            name: ColumnDataSource({c: [] for c in COLUMNS}, name=f"learning-{name}")
            for name in STYLES
        }
        self.pictures = {
            "best": self._picture("best", "relative variance, held out", y_axis_type="log"),
            "loss": self._picture("loss", "loss"),
        }
        # What Download gives: the newest that was trained.
        self._newest: Proposals | None = None
        if self._training is not None:
            self._training.watch = self._follow
        parts = [column(each) for each in (self.family, *self.fields.values())]
        buttons = (self.start_button, self.stop_button, self.download)
        return [
            HTML(f"<p>{INTRODUCTION}</p>", TEXT),
            side_by_side(*parts, least=148, gap=12),
            row(*buttons, gap=8, stylesheet=":host { flex-wrap: wrap; }"),
            column(self.progress_line, self.said, margin=(8, 0, 0, 0)),
            side_by_side(*(pane(each) for each in self.pictures.values()), least=420),
        ]

    @property
    def _training(self) -> TrainingSession | None:
        return self.results.training

    def asked(self, case: State) -> None:
        """Nothing: it trains."""

    def clear(self) -> None:
        names = _forms(self.state.problem)
        options = {AUTOMATIC: "", **{name: name for name in names}}
        value = self.family.value if self.family.value in names else ""
        self.family.param.update(options=options, value=value)
        for shown in self.pictures.values():
            for item, name in zip(shown.legend[0].items, STYLES, strict=True):
                item.visible = name in terms_of(self.state.problem)
        self._show()

    def _picture(self, name: str, label: str, **options: Any) -> Any:
        """The curves of a column against seconds of training, a line for each proposal."""
        shown = picture(
            f"learning-{name}",
            alternative=f"{label.capitalize()}, against seconds of training.",
            x_label="seconds of training",
            y_label=label,
            height=250,
            tools="box_zoom,reset",
            x_range=DataRange1d(start=0),
            y_range=DataRange1d(),
            **options,
        )
        for proposal, (style, said) in STYLES.items():
            looks = {"source": self.sources[proposal], "line_dash": list(SHAPES[style].dash)}
            lines = [shown.line("seconds", name, line_width=2.2, legend_label=said, **looks)]
            if name == "best":
                lines.append(shown.line("seconds", "relative_variance", line_alpha=0.4, **looks))
            for line in lines:
                self.theme.follow(line.glyph, SHAPES[style], "line_color")
            add_hover(
                shown, lines[:1], [("seconds", "@seconds{0.0}"), (name, f"@{name}{{0.00e+0}}")]
            )
        return shown

    def _start(self, _: Any) -> None:
        request = self.read()
        if request is not None and self._training is not None and not self._training.busy:
            self._training.start(request)

    def _stop(self, _: Any) -> None:
        if self._training is not None:
            self._training.stop()

    def read(self) -> TrainingRequest | None:
        """What is asked for; None where something is wrong, which is said beside each field."""
        problem = self.state.problem
        readers: dict[str, Callable[[str], Any]] = {
            "bins": lambda text: Choices(bins=_whole(text)).bins,
            "width": lambda text: Choices(width=_whole(text)).width,
            "minutes": lambda text: read_number(text, *MINUTES),
            "seed": lambda text: read_choice(State.param["seed"], text, problem, {}),
            "name": lambda text: check_name(problem.name, text),
        }
        found: dict[str, Any] = {}
        for name, read in readers.items():
            try:
                found[name] = read(self.fields[name].value.strip())
                self.fields[name].complain()
            except ValueError as error:
                self.fields[name].complain(str(error).removeprefix(f"{name}: "))
        if len(found) < len(readers):
            return None
        choices = Choices(self.family.value or None, found.pop("bins"), found.pop("width"))
        return TrainingRequest(problem=problem.name, choices=choices, **found)

    def _follow(self) -> None:
        """Follows the training."""
        if self._training is not None and self._training.proposals is not None:
            self._newest = self._training.proposals
        self._show()

    def _show(self) -> None:
        """Shows where the training stands."""
        training = self._training
        if training is None:
            self.start_button.disabled = True
            return
        request, reports = training.request, pd.DataFrame(training.reports)
        self.start_button.disabled = training.busy
        self.stop_button.disabled = not training.busy or training.stopped
        name = "" if self._newest is None else self._newest.variant
        self.download.param.update(disabled=not name, filename=f"{name or 'proposals'}.zip")
        share = None
        if request is not None and training.busy and len(reports):
            share = min(reports["seconds"].iloc[-1] / (60 * request.minutes), 1.0)
        words = about_training(training)
        if request is not None and request.problem != self.state.problem.name:
            words = f"For {request.problem}: {words}"
        self.progress_line.say(words, share, alert=bool(training.message))
        items = "".join(f"<li>{escape(each)}</li>" for each in training.log[-14:])
        log = (
            f"<details><summary>Training log</summary><ol>{items}</ol></details>" if items else ""
        )
        self.said.object = log
        for proposal, source in self.sources.items():
            here = reports[reports["proposal"] == proposal] if len(reports) else reports
            source.data = {
                c: here[c].to_numpy(float) if len(here) else np.array([]) for c in COLUMNS
            }
        if not training.busy and len(reports):
            ends = reports.groupby("proposal")["best"].agg(["first", "last"])
            said = ", ".join(
                f"{STYLES[each][1]} from {number(first)} to {number(last)}"
                for each, first, last in ends.itertuples()
            )
            describe(self.pictures["best"], f"Best relative variance at held-out cases: {said}.")


def about_training(training: TrainingSession) -> str:
    """The state of a training, in a line or two."""
    variant = "" if training.proposals is None else training.proposals.variant
    last = training.reports[-1] if training.reports else None
    if training.request is None:
        return "No training is running."
    if training.waiting:
        return "Waiting for another training to end."
    if training.busy and training.stopped:
        return "Stopping."
    if training.busy and last is None:
        return training.log[-1] if training.log else "Starting."
    if training.busy and last is not None:
        best = "not known" if last["best"] is None else number(last["best"])
        return (
            f"{last['proposal']}, {last['stage']}: step {last['step']:,}; best relative variance "
            f"on held-out cases {best}; about {last['left']:.0f} s left"
        )
    if training.message:
        held = f" {variant} holds what was learnt by then." if variant else ""
        return f"The training failed: {training.message}.{held}"
    if training.proposals is None or last is None:
        return "Stopped before the first proposals were saved: there are none to keep."
    if training.stopped:
        return f"Stopped. {variant} is the best up to that point, not checked on held-out cases."
    verdict = training.proposals.verdict or ""
    end = f" {verdict[:1].upper()}{verdict[1:]}" if verdict else ""
    return (
        f"{variant} was trained in {last['seconds']:.0f} s and is in the list of proposals.{end}"
    )


def _whole(text: str) -> int | None:
    """A whole number, or None for an empty text."""
    if text and not text.isdecimal():
        raise ValueError(f"expected a whole number, got {text[:24]!r}")
    return int(text) if text else None


@lru_cache(registry.TARGETS_KEPT)
def _forms(problem: Problem) -> tuple[str, ...]:
    try:
        return form_names(problem)
    except ValueError:  # the training says what is wrong
        return ()

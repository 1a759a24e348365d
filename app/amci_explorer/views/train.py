r"""Train: proposals for the open problem, trained while the user watches."""

from __future__ import annotations

__all__ = ["TrainCard"]

import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from html import escape
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
import panel_material_ui as pmui
from bokeh.models import ColumnDataSource, Range1d
from bokeh.plotting import figure

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.training import Choices, form_names
from amci_explorer.compute.results import Result
from amci_explorer.compute.training import (
    LONGEST_NAME,
    MINUTES,
    OVER,
    STOPPING,
    Report,
    TrainingRequest,
    TrainingSession,
    check_name,
)
from amci_explorer.compute.uploads import MAX_BYTES, File, UploadedProposals, zipped
from amci_explorer.plots.colours import SHAPES
from amci_explorer.problems import registry
from amci_explorer.server.session import callback
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.fields import number as read_number
from amci_explorer.state.state import State
from amci_explorer.text import number
from amci_explorer.views.about_training import INTRODUCTION, about_end, about_log, about_phase
from amci_explorer.views.errors import ErrorCard
from amci_explorer.views.figures import Theme, add_hover, describe, pane, picture, set_range
from amci_explorer.views.inputs import Message, Typed, select
from amci_explorer.views.layout import HTML, column, row, side_by_side
from amci_explorer.views.panel import DensityPanel
from amci_explorer.views.status import Status
from amci_explorer.views.upload import Upload
from amci_explorer.words import HELP

TEXT = "p { margin: 0 0 8px 0; font-size: var(--text); line-height: 1.5; max-width: 90ch; }"
SAID = """
p { margin: 8px 0 0 0; font-size: var(--text); line-height: 1.5; max-width: 90ch; }
details { font-size: var(--small); line-height: 1.5; margin-top: 4px; }
summary { cursor: pointer; opacity: 0.8; width: max-content; border-radius: 4px; }
summary:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
ol { margin: 4px 0 0 0; padding-left: 1.6rem; overflow-wrap: anywhere; max-width: 100ch; }
"""
INSIDE = ":host { border: 0; padding: 0; }"
PREFIX = "train-"


class TrainCard(ErrorCard):
    """The training form, its progress, and the proposals so far."""

    name = "train"
    title = "Train"
    # The progress of the error curves is not shown here.
    unit = ""
    help = HELP["train"]
    drawn: ClassVar[tuple[str, ...]] = ("measure", "spread")
    handled: ClassVar[bool] = False
    height = 340

    def content(self) -> list[Any]:
        self.form = TrainingForm(self.state)
        looks: dict[str, Any] = {"size": "small", "variant": "outlined", "margin": 0}
        self.start_button = pmui.Button(label="Start", **{**looks, "variant": "contained"})
        self.stop_button = pmui.Button(label="Stop", disabled=True, **looks)
        for button, act in (
            (self.start_button, self._start),
            (self.stop_button, self._stop),
        ):
            button.on_click(callback(act))
        self.download = pmui.FileDownload(
            label="Download",
            callback=self._zip,
            filename="proposals.zip",
            disabled=True,
            **looks,
        )
        self.message = Message()
        self.upload = Upload(
            self.take_file,
            self.message.say,
            MAX_BYTES,
            accept=".zip",
            label="Upload proposals",
            **looks,
        )
        self.progress_bar = Status("training", "Training")
        self.said = HTML("", SAID)
        self.progress_pictures = ProgressPictures(self.painter)
        self.place = DensityPanel(self.state, prefix=PREFIX)
        self._pictures = column(
            side_by_side(self.progress_pictures.panel, self.place.panel, least=420)
        )
        self._uploaded: UploadedProposals | None = None
        # What Download gives: the newest that was trained or uploaded.
        self._newest: Proposals | None = None
        self._seen: Any = None
        if self._training is not None:
            self._training.watch(self._follow_training)
        return [
            HTML(f"<p>{INTRODUCTION}</p>", TEXT),
            self.form.panel,
            row(
                *(self.start_button, self.stop_button, self.download, self.upload),
                gap=8,
                stylesheet=":host { flex-wrap: wrap; }",
            ),
            self.message,
            column(self.progress_bar, margin=(8, 0, 0, 0)),
            self.said,
            self._pictures,
            *super().content(),
        ]

    @property
    def _training(self) -> TrainingSession | None:
        return self.results.training

    def clear(self) -> None:
        super().clear()
        self.form.open()
        self.place.open()
        for part in self.place.panel:
            if INSIDE not in part.stylesheets:
                part.stylesheets = [*part.stylesheets, INSIDE]
        self.message.say()
        self._show()

    def redraw(self) -> None:
        super().redraw()
        self.place.follow({"variant"})

    def follow(self, changed: set[str]) -> None:
        super().follow(changed)
        self.place.follow(changed)

    def start(self) -> None:
        super().start()
        self.place.describe()

    def recolour(self, dark: bool) -> None:
        super().recolour(dark)
        self.place.recolour(dark)

    def _start(self, _: Any) -> None:
        request = self.form.read()
        if request is not None and self._training is not None and not self._training.busy:
            self._training.start(request)
            self._show()

    def _stop(self, _: Any) -> None:
        if self._training is not None:
            self._training.stop()
            self._show()

    def _follow_training(self) -> None:
        if self._training is not None and self._training.proposals is not None:
            self._newest = self._training.proposals
        self._show()

    def _show(self) -> None:
        """Shows where the training stands."""
        training = self._training
        if training is None:
            self.start_button.disabled = True
            return
        self.start_button.disabled = training.busy
        self.stop_button.disabled = not training.busy or training.phase == STOPPING
        name = "" if self._newest is None else self._newest.variant
        self.download.param.update(disabled=not name, filename=f"{name or 'proposals'}.zip")
        request, reports = training.request, training.reports
        spent = reports[-1].seconds if reports else 0.0
        share = min(spent / (60 * request.minutes), 1.0) if request and training.busy else None
        self.progress_bar.share = share
        words = about_phase(training)
        if request is not None and request.problem != self.state.problem.name:
            words = f"For {request.problem}: {words}"
        self.progress_bar.say(words, alert=bool(training.message))
        end = about_end(training)
        content = (f'<p role="status">{escape(end)}</p>' if end else "") + about_log(training.log)
        if self.said.object != content:
            self.said.object = content
        if self._seen != (seen := (id(request), len(reports), spent)):
            self._seen = seen
            self.progress_pictures.show(reports)
        if training.phase == OVER:
            self.progress_pictures.describe(reports)

    def _zip(self) -> BytesIO:
        return BytesIO() if self._newest is None else zipped(self._newest)

    def take_file(self, name: str, content: bytes) -> None:
        """Has a file read by a worker; it is let go when that is done."""
        self.message.say()
        file = File(name, content)
        self._uploaded = UploadedProposals(secrets.token_hex(16), file, self.state.problem.name)
        self.results.want(_Reader(self), self._uploaded)  # type: ignore[arg-type]

    def take_proposals(self, found: Proposals) -> None:
        """Lists proposals from a file, and chooses them."""
        try:
            name = check_name(found.problem, found.variant)
        except ValueError as error:
            self.message.say(f"its name: {error}")
            return
        listed = registry.add_variant(found.problem, name, found, session=self.state)
        self._newest = replace(found, variant=listed)
        registry.renew_variant(found.problem, listed, self._newest)
        if self.state.problem.name == found.problem:
            self.state.set(variant=listed)
            self.state.commit()
        self._show()

    def let_go(self) -> None:
        """Keeps nothing of the file."""
        if self._uploaded is not None:
            self._uploaded.file.let_go()
            self.results.drop(self._uploaded)
            self.results.dismiss(_Reader.name)
            self._uploaded = None


class _Reader:
    """Takes what is read of a file."""

    name = "train-file"

    def __init__(self, card: TrainCard) -> None:
        self._card = card

    def begin(self) -> None:
        """It is being read."""

    def take(self, result: Result) -> None:
        """Has the proposals listed."""
        if result.complete:
            self._card.take_proposals(result.value)

    def end(self, message: str | None) -> None:
        """Says what is wrong with it, if something is."""
        if message:
            self._card.message.say(message)
        self._card.let_go()


AUTOMATIC = "automatic"
FIELDS_OF = {
    "bins": ("Bins", "", "4 to 128; empty for the default."),
    "width": ("Width", "", "Of the network's layers, 4 to 1024; empty for the default."),
    "minutes": ("Minutes", "0.5", "Training time; 0.33 is 20 seconds."),
    "seed": ("Training seed", "0", "Another seed gives other weights."),
    "name": ("Name", "learnt", f"Letters, digits and dashes, at most {LONGEST_NAME}."),
}


class TrainingForm:
    """Creates the fields, with what a training begins with.

    Arguments:
        state: Whose problem is trained for.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.family = select("Family", {AUTOMATIC: ""}, margin=(6, 0))
        self.fields = {
            name: Typed(
                label=label,
                value=value,
                helper_text=text,
                size="small",
                sizing_mode="stretch_width",
                margin=(6, 0),
            )
            for name, (label, value, text) in FIELDS_OF.items()
        }
        parts = [column(each) for each in (self.family, *self.fields.values())]
        self.panel = side_by_side(*parts, least=148, gap=12)

    def open(self) -> None:
        """Offers the forms that there are for the state's problem."""
        names = _forms(self._state.problem)
        options = {AUTOMATIC: "", **{name: name for name in names}}
        value = self.family.value if self.family.value in names else ""
        self.family.param.update(options=options, value=value)

    def read(self) -> TrainingRequest | None:
        """What is asked for; None where something is wrong, which is said beside each field."""
        problem = self._state.problem
        low, high = MINUTES

        readers: dict[str, Callable[[str], Any]] = {
            "bins": lambda text: Choices(bins=_whole(text)).bins,
            "width": lambda text: Choices(width=_whole(text)).width,
            "minutes": lambda text: read_number(text, low, high),
            "seed": lambda text: FIELDS["seed"].read(problem, text),
            "name": lambda text: check_name(problem.name, text),
        }
        found: dict[str, Any] = {}
        for name, read in readers.items():
            try:
                found[name] = read(self.fields[name].value.strip())
                self._say(name)
            except ValueError as error:
                self._say(name, str(error).removeprefix(f"{name}: "))
        if len(found) < len(readers):
            return None
        return TrainingRequest(
            problem=problem.name,
            name=found["name"],
            choices=Choices(self.family.value or None, found["bins"], found["width"]),
            minutes=found["minutes"],
            seed=found["seed"],
        )

    def _say(self, name: str, wrong: str = "") -> None:
        text = wrong or FIELDS_OF[name][2]
        self.fields[name].param.update(error_state=bool(wrong), helper_text=text)


def _whole(text: str) -> int | None:
    """A whole number, or None for an empty text."""
    if not text:
        return None
    if not text.isdecimal():
        raise ValueError(f"expected a whole number, got {text[:24]!r}")
    return int(text)


@lru_cache(registry.TARGETS_KEPT)
def _forms(problem: Problem) -> tuple[str, ...]:
    try:
        return form_names(problem)
    except ValueError:  # the training says what is wrong
        return ()


COLUMNS = ("seconds", "best", "relative_variance", "loss")
# The style and the label of each proposal.
STYLES = {"q1_plus": ("q1", "q₁"), "q1_minus": ("q1_minus", "q₁⁻"), "q2": ("q2", "q₂")}
LEAST, MOST = 1e-9, 1e6
LEAST_SECONDS = 5.0


class ProgressPictures:
    """Creates the pictures, empty; `show` fills them.

    Arguments:
        painter: What draws them for a dark page.
    """

    def __init__(self, painter: Theme) -> None:
        self.sources = {
            name: ColumnDataSource({c: [] for c in COLUMNS}, name=f"learning-{name}")
            for name in STYLES
        }
        self._x = Range1d(0, LEAST_SECONDS)
        options: dict[str, Any] = {"x_label": "seconds of training", "x_range": self._x}
        self.variance: figure = picture(
            "learning-variance",
            alternative="Relative variance at held-out cases against seconds of training.",
            y_label="relative variance, held out",
            height=310,
            y_range=Range1d(1e-3, 10),
            y_axis_type="log",
            tools="box_zoom,reset",
            **options,
        )
        self.loss: figure = picture(
            "learning-loss",
            alternative="Loss against seconds of training.",
            y_label="loss",
            height=230,
            y_range=Range1d(0, 1),
            tools="box_zoom,reset",
            **options,
        )
        self.loss.yaxis.ticker.desired_num_ticks = 4
        for name, (style, text) in STYLES.items():
            source, shape = self.sources[name], SHAPES[style]
            now = self.variance.line(
                "seconds", "relative_variance", source=source, line_alpha=0.45
            )
            looks = {"line_width": 2.5, "line_dash": list(shape.dash), "legend_label": text}
            best = self.variance.line("seconds", "best", source=source, **looks)
            loss = self.loss.line("seconds", "loss", source=source, line_width=1.8)
            for each in (now, best, loss):
                painter.follow(each.glyph, shape, "line_color")
            tips = [("seconds", "@seconds{0.0}"), ("best", "@best{0.00e+0}")]
            add_hover(self.variance, [best], [*tips, ("now", "@relative_variance{0.00e+0}")])
            add_hover(self.loss, [loss], [tips[0], ("loss", "@loss{0.0000}")])
        self.panel = column(pane(self.variance), pane(self.loss))

    def show(self, reports: list[Report]) -> None:
        """Draws where a training stood."""
        by_name = _by_proposal(reports)
        for name, source in self.sources.items():
            found = by_name.get(name, [])
            columns = {c: np.array([getattr(each, c) for each in found]) for c in COLUMNS}
            for c in ("best", "relative_variance"):
                columns[c] = np.clip(columns[c], LEAST, MOST)
            source.data = columns
        for name, item in zip(STYLES, self.variance.legend.items, strict=True):
            item.visible = name in by_name
        last = reports[-1].seconds if reports else 0.0
        set_range(self._x, 0, max(LEAST_SECONDS, 5 * np.ceil(1.02 * last / 5)))
        seen = _finite([v for each in reports for v in (each.best, each.relative_variance)])
        seen = np.clip(seen[seen > 0], LEAST, MOST)
        if seen.size:
            low, high = np.floor(np.log10(seen.min())), np.ceil(np.log10(seen.max()))
            set_range(self.variance.y_range, 10.0**low, 10.0 ** max(high, low + 1))
        losses = _finite([each.loss for each in reports])
        if losses.size:
            low, high = np.quantile(losses, [0.0, 0.98])
            room = 0.06 * max(high - low, 1e-3)
            set_range(self.loss.y_range, low - room, high + room)

    def describe(self, reports: list[Report]) -> None:
        """Renews the text alternatives."""
        said = ", ".join(
            f"{STYLES[name][1]} from {number(each[0].best)} to {number(each[-1].best)}"
            for name, each in _by_proposal(reports).items()
        )
        if said:
            about = "Relative variance at held-out cases, the best so far: "
            describe(self.variance, f"{about}{said}.")
        losses = _finite([each.loss for each in reports])
        if losses.size:
            first, last = (number(float(losses[i])) for i in (0, -1))
            describe(self.loss, f"Loss against seconds of training, from {first} to {last}.")


def _finite(values: list[float]) -> Array:
    found = np.array(values, dtype=float)
    return found[np.isfinite(found)]


def _by_proposal(reports: list[Report]) -> dict[str, list[Report]]:
    found: dict[str, list[Report]] = {}
    for each in reports:
        found.setdefault(each.proposal, []).append(each)
    return found

r"""Train: proposals for the open problem, learnt while the user watches."""

from __future__ import annotations

__all__ = ["TrainCard"]

import secrets
from dataclasses import replace
from html import escape
from io import BytesIO
from typing import Any

import panel_material_ui as pmui

from amci_core.flows import Proposals
from amci_explorer.compute.archive import MAX_BYTES, Brought, packed
from amci_explorer.compute.learner import OVER, STOPPING, Learner, check_name
from amci_explorer.compute.results import Result
from amci_explorer.compute.session import callback
from amci_explorer.compute.uploaded import File
from amci_explorer.problems import registry
from amci_explorer.views.errors import ErrorCard
from amci_explorer.views.inputs import Message
from amci_explorer.views.layout import HTML, column, row, side_by_side
from amci_explorer.views.learning import LearningView
from amci_explorer.views.order import OrderForm
from amci_explorer.views.panel import DensityPanel
from amci_explorer.views.status import Status
from amci_explorer.views.upload import Upload
from amci_explorer.words import HELP
from amci_explorer.words.train import INTRODUCTION, about_end, about_phase, about_plan

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
    drawn = ("relative",)
    height = 340

    def content(self) -> list[Any]:
        self.form = OrderForm(self.state)
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
        self.learning = LearningView(self.painter)
        self.place = DensityPanel(self.state, prefix=PREFIX)
        self._pictures = column(side_by_side(self.learning.panel, self.place.panel, least=420))
        self._brought: Brought | None = None
        self._kept: Proposals | None = None
        self._seen: Any = None
        if self._learner is not None:
            self._learner.watch(self._follow_learner)
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
    def _learner(self) -> Learner | None:
        return self.results.learner

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
        order = self.form.read()
        if order is not None and self._learner is not None and not self._learner.busy:
            self._learner.start(order)

    def _stop(self, _: Any) -> None:
        if self._learner is not None:
            self._learner.stop()

    def _follow_learner(self) -> None:
        if self._learner is not None and self._learner.proposals is not None:
            self._kept = self._learner.proposals
        self._show()

    def _show(self) -> None:
        """Shows where the training stands."""
        learner = self._learner
        if learner is None:
            self.start_button.disabled = True
            return
        self.start_button.disabled = learner.busy
        self.stop_button.disabled = not learner.busy or learner.phase == STOPPING
        name = "" if self._kept is None else self._kept.variant
        self.download.param.update(disabled=not name, filename=f"{name or 'proposals'}.zip")
        order, reports = learner.order, learner.reports
        spent = reports[-1].seconds if reports else 0.0
        self.progress_bar.share = (
            min(spent / (60 * order.minutes), 1.0) if order and learner.busy else None
        )
        words = about_phase(learner)
        if order is not None and order.problem != self.state.problem.name:
            words = f"For {order.problem}: {words}"
        self.progress_bar.say(words, alert=bool(learner.message))
        end = about_end(learner)
        content = (f'<p role="status">{escape(end)}</p>' if end else "") + about_plan(learner.said)
        if self.said.object != content:
            self.said.object = content
        if self._seen != (seen := (id(order), len(reports), spent)):
            self._seen = seen
            self.learning.show(reports)
        if learner.phase == OVER:
            self.learning.describe(reports)

    def _zip(self) -> BytesIO:
        return BytesIO() if self._kept is None else packed(self._kept)

    def take_file(self, name: str, content: bytes) -> None:
        """Has a file read by a process that computes; it is let go when that is done."""
        self.message.say()
        self._brought = Brought(
            secrets.token_hex(16), self.state.problem.name, File(name, content)
        )
        self.results.want(_Reader(self), self._brought)  # type: ignore[arg-type]

    def take_proposals(self, found: Proposals) -> None:
        """Lists proposals from a file, and chooses them."""
        try:
            name = check_name(found.problem, found.variant)
        except ValueError as error:
            self.message.say(f"its name: {error}")
            return
        listed = registry.add_variant(found.problem, name, found, session=self.state)
        self._kept = replace(found, variant=listed)
        registry.renew_variant(found.problem, listed, self._kept)
        if self.state.problem.name == found.problem:
            self.state.set(variant=listed)
            self.state.commit()
        self._show()

    def let_go(self) -> None:
        """Keeps nothing of the file."""
        if self._brought is not None:
            self._brought.file.let_go()
            self.results.drop(self._brought)
            self.results.dismiss(_Reader.name)
            self._brought = None


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

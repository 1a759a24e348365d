r"""One visitor's page: state, store, jobs and views, tied together."""

from __future__ import annotations

__all__ = ["Explorer"]

import logging
from functools import cache
from typing import Any

import panel_material_ui as pmui
import torch
from bokeh.models import CustomJS

from amci_core.evaluation import ErrorCurves, ReuseErrors
from amci_core.models import Preset
from app import export
from app.session import answer, one_message
from app.state import Choice, State
from app.store import Densities, Store
from app.summary import Summary
from app.views.controls import Controls
from app.views.densities import DensityView
from app.views.errors import ErrorView
from app.views.film import FilmView
from app.views.reuse import ReuseView
from app.views.story import StoryView
from app.views.strip import StripView
from app.worker import Jobs

log = logging.getLogger(__name__)

PROBLEM = "tail-1d"


@cache
def _store() -> Store:
    # One for all visitors; their work is spread over processes, not over PyTorch's own threads.
    torch.set_num_threads(1)
    return Store(PROBLEM)


class Explorer:
    """Creates everything that one visitor sees, and starts computing for the point asked for.

    Arguments:
        document: The visitor's Bokeh document.
        query: The parameters in the page's address.
    """

    def __init__(self, document: Any, query: dict[str, str]) -> None:
        self.store = _store()
        self.state = State(self.store.problem)
        self.jobs = Jobs(document)
        self._document = document
        self._computed: Choice | None = None
        self._densities: Densities | None = None
        self._curves: ErrorCurves | None = None
        self._reuse: ReuseErrors | None = None
        self._summary: Summary | None = None
        wrong = self.state.read_query(query)
        self.strip = StripView()
        self.densities = DensityView()
        self.errors = ErrorView()
        self.reuse = ReuseView()
        self.film = FilmView(self.store.snapshots, take=self._take_frame)
        self.controls = Controls(
            self.state, self.film, downloads=self._downloads(), choose=self._choose
        )
        self.controls.complain(wrong)
        self.story = StoryView(self.store.problem)
        self._connect()
        self._move()
        self._show_frame()

    @property
    def views(self) -> list[Any]:
        """Everything that has colours."""
        return [self.strip, self.densities, self.errors, self.reuse, self.film]

    def start(self) -> None:
        """Starts Monte Carlo for the point shown, unless that is under way or done."""
        choice = self.state.choice
        if choice == self._computed:
            return
        self._computed = choice
        self._write_address()
        if self._densities is not None:
            self.densities.describe(self._densities)
        self.errors.begin()
        self.jobs.start(
            "errors",
            lambda: self.store.error_curves(choice),
            show=self._show_curves,
            finish=self._finish_curves,
        )
        self.jobs.start(
            "summary",
            lambda: self.store.summary(choice),
            show=self._show_summary,
            finish=self._report,
        )
        self.jobs.start(
            "reuse",
            lambda: self.store.reuse(choice),
            show=self._show_reuse,
            finish=self._finish_reuse,
        )

    def cancel(self) -> None:
        """Calls off what is being computed."""
        self.jobs.cancel_all()
        self._computed = None

    def close(self, _: Any) -> None:
        """The visitor has gone."""
        self.jobs.cancel_all()

    def report(self, error: Exception) -> None:
        """Shows an exception of a callback; the page stays alive."""
        log.error("a callback failed", exc_info=error)
        self._report(str(error) or type(error).__name__)

    def _connect(self) -> None:
        state = self.state
        state.param.watch(self._move, ["y", "theta", "variant", "snapshot"])
        state.param.watch(self._show_frame, ["variant", "snapshot"])
        state.param.watch(lambda _: self.start(), "released")
        state.param.watch(lambda *_: self.reuse.move(state.alpha, state.beta), ["alpha", "beta"])
        self._bind("alpha", self.reuse.alpha)
        self._bind("beta", self.reuse.beta)
        self._bind("logarithmic", self.densities.scale)
        self._bind("relative", self.errors.measure)
        state.param.watch(lambda e: self.densities.set_scale(e.new), "logarithmic")
        state.param.watch(lambda e: self.errors.set_relative(e.new), "relative")
        self.errors.button.on_click(answer(self._press))
        self.densities.figure.js_on_change("tags", CustomJS(code=REPLACE_ADDRESS))

    def _bind(self, name: str, widget: Any) -> None:
        """Ties a widget to one plain parameter of the state, both ways."""
        take = answer(lambda e: self.state.param.update(**{name: e.new}))
        widget.param.watch(take, "value")
        self.state.param.watch(lambda e: widget.param.update(value=e.new), name)

    def _move(self, *_: Any) -> None:
        """Follows a handle while it is dragged: exact figures and densities, no Monte Carlo."""
        state, choice = self.state, self.state.choice
        self._densities = self.store.densities(choice)
        self.densities.show(self._densities)
        self.strip.show_point(
            log_truth=float(self.store.problem.log_truth(choice.y, choice.theta)),
            truth=float(self.store.problem.truth(choice.y, choice.theta)),
            level=state.level,
        )

    def _show_frame(self, *_: Any) -> None:
        self.film.show(self.state.snapshot, usable=self.state.variant == "spline")

    def _take_frame(self, frame: int) -> None:
        last = len(self.store.snapshots) - 1
        chosen = None if frame >= last else frame
        if chosen != self.state.snapshot:
            self.state.snapshot = chosen
            self.start()

    def _choose(self, preset: Preset) -> None:
        self.story.tell(preset)
        self.state.apply(preset)

    def _press(self, _: Any) -> None:
        if self._computed is None:
            self.start()
        else:
            self.cancel()
            self.errors.stop()

    def _show_curves(self, found: ErrorCurves) -> None:
        self._curves = found
        with one_message(self._document):
            self.errors.show(found)

    def _finish_curves(self, message: str | None) -> None:
        with one_message(self._document):
            self.errors.end()
        self._report(message)

    def _show_summary(self, found: Summary) -> None:
        self._summary = found
        self.strip.show(found)

    def _show_reuse(self, found: ReuseErrors) -> None:
        self._reuse = found
        with one_message(self._document):
            self.reuse.show(found)

    def _finish_reuse(self, message: str | None) -> None:
        if self._reuse is not None:
            self.reuse.describe(self._reuse)
        self._report(message)

    def _report(self, message: str | None) -> None:
        if message:
            self.story.complain(message)

    def _write_address(self) -> None:
        address = "&".join(f"{name}={value}" for name, value in self.state.query().items())
        self.densities.figure.tags = [address]

    def _downloads(self) -> list[Any]:
        def button(label: str, filename: str, make: Any) -> Any:
            return pmui.FileDownload(
                callback=make,
                filename=filename,
                label=label,
                size="small",
                variant="outlined",
                sizing_mode="stretch_width",
                margin=0,
            )

        return [
            button("Error curves, CSV", "error-curves.csv", self._curves_csv),
            button("Densities, CSV", "densities.csv", self._densities_csv),
            button("Everything, JSON", "amci-explorer.json", self._everything),
        ]

    def _curves_csv(self) -> Any:
        return None if self._curves is None else export.curves_csv(self._curves)

    def _densities_csv(self) -> Any:
        return None if self._densities is None else export.densities_csv(self._densities)

    def _everything(self) -> Any:
        return export.everything_json(
            self.state.choice,
            densities=self._densities,
            curves=self._curves,
            reuse=self._reuse,
            summary=self._summary,
        )


# The address is replaced, not pushed: Back leads to where the visitor came from.
REPLACE_ADDRESS = """
    const address = new URL(window.location.href)
    const asked = new URLSearchParams(cb_obj.tags[0])
    for (const name of ["y", "theta", "variant", "draws", "runs", "seed"]) {
        address.searchParams.delete(name)
    }
    for (const [name, value] of asked) { address.searchParams.set(name, value) }
    window.history.replaceState(window.history.state, "", address)
"""

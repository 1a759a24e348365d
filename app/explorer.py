r"""One visitor's page: state, store, jobs and views, tied together."""

from __future__ import annotations

__all__ = ["Explorer"]

import logging
import math
import sys
from functools import partial
from types import ModuleType
from typing import Any

import panel_material_ui as pmui
from bokeh.models import CustomJS

from amci_core.errors import ErrorCurves, ReuseErrors
from amci_core.proposals import DEFAULT_VARIANT
from app import export
from app.amortization import Amortization
from app.computations import Asked
from app.diagnosis import Diagnosis
from app.jobs import Jobs
from app.numbers.known import log_truth, truth_sign
from app.pictures import densities, picture
from app.presets import Preset
from app.ready import get_ready
from app.session import answer
from app.state import Choice, State
from app.store import Store, store_of
from app.summary import Summary, about_truth
from app.views.controls import Controls
from app.views.diagnostics import DiagnosticsView
from app.views.errors import ErrorView
from app.views.film import FilmView
from app.views.layout import column
from app.views.reuse import ReuseView, why_not_reuse
from app.views.story import StoryView
from app.views.strip import StripView
from app.views.tabs import Tab, TabsView

log = logging.getLogger(__name__)

# Another problem's handles and densities have so long to be painted before the rest of the page is
# made ready: what a message brings meanwhile is built before anything is painted.
MILLISECONDS_AHEAD = 250


class Explorer:
    """Creates everything that one visitor sees, and starts computing for the point asked for.

    Arguments:
        document: The visitor's Bokeh document.
        query: The parameters in the page's address.
    """

    def __init__(self, document: Any, query: dict[str, str]) -> None:
        self.state = State()
        self.jobs = Jobs(document)
        self._document = document
        # While views are still to be turned to the problem; and whether to compute for it then.
        self._turning = self._asked = False
        self._computed: Choice | None = None
        self._densities: Any = None
        self._curves: ErrorCurves | None = None
        self._reuse: ReuseErrors | None = None
        self._reused: tuple[Choice, float, bool] | None = None
        self._diagnosis: Diagnosis | None = None
        self._diagnosed: Choice | None = None
        self._summary: Summary | None = None
        self._dark = False
        self._density_views: dict[Any, Any] = {}
        wrong = self.state.read_query(query)
        self.strip = StripView()
        self.density_place = column()
        self.errors = ErrorView()
        self.reuse = ReuseView(again=lambda: self.tabs.start())
        self.diagnostics = DiagnosticsView()
        self.amortization = Amortization(
            self.state,
            self.jobs,
            store=lambda: self.store,
            report=self._report,
        )
        self.tabs = TabsView(*self._tabs(), choice=self._settled)
        self.film = FilmView(take=self._take_frame)
        self.story = StoryView()
        self.controls = Controls(
            self.state, self.film, downloads=self._downloads(), choose=self._choose
        )
        self._connect()
        self._open_case()
        self._open_rest()
        self.controls.complain(wrong)

    @property
    def store(self) -> Store:
        """What follows for the problem that is looked at."""
        return store_of(self.state.problem.name)

    @property
    def densities(self) -> Any:
        """The density pictures of its kind, made when they are first asked for."""
        make = picture(self.state.problem).view
        if make not in self._density_views:
            self._density_views[make] = created = make(self._move)
            created.recolour(self._dark)
            if created.scale is not None:
                self._bind("logarithmic", created.scale)
                self.state.param.watch(lambda e: created.set_scale(e.new), "logarithmic")
                created.scale.value = self.state.logarithmic
                created.set_scale(self.state.logarithmic)
        return self._density_views[make]

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._dark = dark
        views = [
            self.strip,
            self.errors,
            self.reuse,
            self.diagnostics,
            self.amortization.view,
            self.film,
            *self._density_views.values(),
        ]
        for view in views:
            view.recolour(dark)

    def start(self) -> None:
        """Starts Monte Carlo for the point shown, unless that is under way or done."""
        if self._turning:
            self._asked = True
            return
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
            Asked("error_curves", choice),
            show=self._show_curves,
            finish=self._finish_curves,
        )
        self.jobs.start(
            "summary",
            Asked("summary", choice),
            show=self._show_summary,
            finish=self._report,
        )
        if self._reused is None or choice != self._reused[0]:
            self._reuse = self._reused = None
            self.reuse.forget()
        if choice != self._diagnosed:
            self._diagnosis = self._diagnosed = None
        self.tabs.start()

    def cancel(self) -> None:
        """Calls off what is being computed."""
        self.amortization.stop()
        self.jobs.cancel_all()
        self._computed = None

    def close(self, _: Any) -> None:
        """The visitor has gone."""
        self.jobs.cancel_all()

    def report(self, error: Exception) -> None:
        """Shows an exception of a callback; the page stays alive."""
        log.error("a callback failed", exc_info=error)
        self._report(str(error) or type(error).__name__)

    def _tabs(self) -> list[Tab]:
        """The cards behind tabs, from left to right."""

        def tab(title: str, view: Any, job: str, start: Any, **more: Any) -> Tab:
            return Tab(title, view.panel, start, partial(self.jobs.cancel, job), **more)

        shown = self.amortization
        return [
            tab("Sample reuse", self.reuse, "reuse", self._start_reuse, why_not=why_not_reuse),
            tab("Diagnostics", self.diagnostics, "diagnosis", self._start_diagnosis),
            Tab("Amortization map", shown.view.panel, shown.start, shown.stop),
        ]

    def _settled(self) -> Choice | None:
        """What to compute for, once every view has turned to its problem."""
        return None if self._turning else self.state.choice

    def _start_reuse(self, choice: Choice) -> None:
        share, common = self.reuse.share.value, self.reuse.common.value
        asked = (choice, share, common)
        if asked != self._reused:
            self.jobs.start(
                "reuse",
                Asked("reuse", choice, (share, common)),
                show=self._show_reuse,
                finish=partial(self._finish_reuse, asked),
            )

    def _start_diagnosis(self, choice: Choice) -> None:
        if choice != self._diagnosed:
            self.jobs.start(
                "diagnosis",
                Asked("diagnosis", choice),
                show=self._show_diagnosis,
                finish=partial(self._finish_diagnosis, choice),
            )

    def _connect(self) -> None:
        state = self.state
        state.param.watch(self._follow, ["problem", "y", "theta", "variant", "snapshot"])
        state.param.watch(self._show_frame, ["variant", "snapshot"])
        state.param.watch(lambda _: self.start(), "released")
        state.param.watch(lambda *_: self.reuse.move(state.alpha, state.beta), ["alpha", "beta"])
        self._bind("alpha", self.reuse.alpha)
        self._bind("beta", self.reuse.beta)
        self._bind("relative", self.errors.measure)
        state.param.watch(lambda e: self.errors.set_relative(e.new), "relative")
        self.errors.button.on_click(answer(self._press))
        self.errors.figure.js_on_change("tags", CustomJS(code=REPLACE_ADDRESS))

    def _bind(self, name: str, widget: Any) -> None:
        """Ties a widget to one plain parameter of the state, both ways."""
        take = answer(lambda e: self.state.param.update(**{name: e.new}))
        widget.param.watch(take, "value")
        self.state.param.watch(lambda e: widget.param.update(value=e.new), name)

    def _follow(self, *events: Any) -> None:
        """Follows the state: another problem brings another point with it, once."""
        if any(event.name == "problem" for event in events):
            # The page builds what one looks at first while the server makes ready the rest.
            self._open_case()
            self._turning = True
            self._document.add_timeout_callback(answer(self._turn), MILLISECONDS_AHEAD)
        else:
            self._move()

    def _turn(self) -> None:
        """Turns what is left to the state's problem, and computes if that was asked for."""
        if self._turning:
            asked, self._turning, self._asked = self._asked, False, False
            self._open_rest()
            if asked:
                self.start()

    def _open_case(self) -> None:
        """Turns handles and densities to the state's problem, and calls off all computing."""
        self.jobs.cancel_all()
        self._computed = self._reused = self._diagnosis = self._diagnosed = None
        self._curves = self._reuse = self._summary = None
        self.densities.open(picture(self.state.problem))
        self.density_place[:] = [self.densities.panel]
        self.story.open(self.state.problem)
        self.controls.open()
        self.film.open(self.store.snapshots)
        self._show_frame()
        self.amortization.open()
        self.strip.clear()
        self._move()

    def _open_rest(self) -> None:
        """Turns the other views to it; nothing of another problem stays."""
        store = self.store
        self.errors.open(store.estimators)
        self.reuse.open()
        self.diagnostics.open(store)
        self.tabs.open(store)

    def _move(self, *_: Any) -> None:
        """Follows a handle while it is dragged: exact figures and densities, no Monte Carlo."""
        choice, problem, view = self.state.choice, self.state.problem, self.densities
        proposals = self.store.proposals(choice)
        self._densities = densities(problem, proposals, *choice.pair, **view.look)
        view.show(self._densities)
        log_mu = log_truth(problem, *choice.pair)
        self.strip.show_point(
            truth=truth_sign(problem, *choice.pair) * math.exp(log_mu),
            about=about_truth(problem, log_mu),
            level=self.state.level,
        )
        self.amortization.mark()

    def _show_frame(self, *_: Any) -> None:
        self.film.show(self.state.snapshot, usable=self.state.variant == DEFAULT_VARIANT)

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
        self.errors.show(found)

    def _finish_curves(self, message: str | None) -> None:
        self.errors.end()
        self._report(message)
        get_ready()

    def _show_summary(self, found: Summary) -> None:
        self._summary = found
        self.strip.show(found)

    def _show_reuse(self, found: ReuseErrors) -> None:
        self._reuse = found
        self.reuse.show(found)

    def _finish_reuse(self, asked: tuple[Choice, float, bool], message: str | None) -> None:
        if message:
            self.reuse.complain(message)
        elif self._reuse is not None:
            self._reused = asked
            self.reuse.describe(self._reuse)

    def _show_diagnosis(self, found: Diagnosis) -> None:
        self._diagnosis = found
        self.diagnostics.show(found)

    def _finish_diagnosis(self, choice: Choice, message: str | None) -> None:
        if self._diagnosis is not None:
            self._diagnosed = choice
            self.diagnostics.describe()
        self._report(message)

    def _report(self, message: str | None) -> None:
        if message:
            self.story.complain(message)

    def _write_address(self) -> None:
        address = "&".join(f"{name}={value}" for name, value in self.state.query().items())
        self.errors.figure.tags = [address]

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
            button("Amortization map, CSV", "amortization-map.csv", self._map_csv),
            button("Everything, JSON", "amci-explorer.json", self._everything),
        ]

    def _curves_csv(self) -> Any:
        return None if self._curves is None else export.curves_csv(self._curves)

    def _densities_csv(self) -> Any:
        return None if self._densities is None else export.densities_csv(self._densities)

    def _map_csv(self) -> Any:
        found = self.amortization.found
        return None if found is None else export.map_csv(found)

    def _everything(self) -> Any:
        return export.everything_json(
            self.state.choice,
            densities=self._densities,
            curves=self._curves,
            reuse=self._reuse,
            summary=self._summary,
            diagnosis=self._diagnosis,
            amortization=self.amortization.found,
            plane=self.amortization.plane,
        )


# The address is replaced, not pushed: Back leads to where the visitor came from.
REPLACE_ADDRESS = """
    const address = new URL(window.location.href)
    const asked = new URLSearchParams(cb_obj.tags[0])
    for (const name of ["problem", "y", "theta", "variant", "draws", "runs", "seed"]) {
        address.searchParams.delete(name)
    }
    for (const [name, value] of asked) { address.searchParams.set(name, value) }
    window.history.replaceState(window.history.state, "", address)
"""


class _Callable(ModuleType):
    """Lets a notebook say `from app import explorer; explorer()`."""

    def __call__(self, **options: Any) -> Any:
        """Shows the dashboard in a cell, see `app.cell.open_dashboard`."""
        from app.cell import open_dashboard

        return open_dashboard(**options)


sys.modules[__name__].__class__ = _Callable

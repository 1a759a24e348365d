r"""Pictures of the page without a server: Bokeh figures as JSON, for a light and a dark page."""

from __future__ import annotations

__all__ = ["BUDGETS", "KINDS", "RUNS", "Case", "densities", "embedded", "errors"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import holoviews as hv
import numpy as np
import panel as pn
from bokeh.embed import json_item
from bokeh.layouts import column
from bokeh.models import LayoutDOM
from bokeh.themes import built_in_themes

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.target import fallback_proposals
from amci_explorer import plots
from amci_explorer.numbers.case import shown_estimators
from amci_explorer.numbers.diagnosis import diagnosis
from amci_explorer.numbers.pictures import densities as densities_of
from amci_explorer.plots.diagnostics import weights_histogram
from amci_explorer.problems.presets import opening
from amci_explorer.text import number
from amci_explorer.views.densities import DensityView
from amci_explorer.views.figures import describe
from amci_explorer.words.curves import about_curves
from amci_explorer.words.plane import about_map
from amci_explorer.words.reuse import about_map as about_reuse

BUDGETS, RUNS = (10, 30, 100, 300, 1000), 1000
# Their grounds are those of the page's cards.
THEMES = {name: built_in_themes[f"{name}_minimal"] for name in ("light", "dark")}

Draw = Callable[[bool], Sequence[LayoutDOM]]


@dataclass(frozen=True)
class Case:
    """What a picture is of: the arguments of the core's functions, and its name.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: The observation; None without one.
        theta: The parameter of f; None without one.
        shares: alpha and beta of sample reuse.
    """

    problem: Problem
    proposals: Proposals
    y: tuple[float, ...] | None
    theta: tuple[float, ...] | None
    shares: tuple[float, float] = (1.0, 0.0)

    @classmethod
    def of(cls, state: Mapping[str, str], name: str) -> Case:
        """The case of a tour's step: fields of a link, for the problem with that name."""
        problem = amci.problem(name)
        y, theta = opening(problem)
        proposals = amci.load_proposals(problem, variant=state.get("variant") or None)
        if state.get("f"):
            problem = amci.with_target(problem, state["f"])
            proposals = fallback_proposals(problem, proposals)
        return cls(
            problem,
            proposals,
            numbers(state["y"]) if "y" in state else y or None,
            numbers(state["theta"]) if "theta" in state else theta or None,
            (float(state.get("alpha", 1)), float(state.get("beta", 0))),
        )

    @property
    def arguments(self) -> tuple[Any, ...]:
        """As the core's functions take them."""
        return self.problem, self.proposals, self.y, self.theta

    def __str__(self) -> str:
        at = [
            f"{name} = {', '.join(map(number, values))}"
            for name, values in (("y", self.y), ("θ", self.theta))
            if values
        ]
        return "; ".join([self.problem.title, *at])


def numbers(text: str) -> tuple[float, ...]:
    """Numbers with commas, as a link has them."""
    return tuple(map(float, filter(None, text.split(","))))


def embedded(draw: Draw) -> dict[str, Any]:
    """Figures, one below the other, as BokehJS embeds them, by theme."""
    found = {}
    for name, theme in THEMES.items():
        figures = column(*draw(name == "dark"), sizing_mode="stretch_width")
        item: Any = json_item(figures, theme=theme)
        # Definitions of Panel's own models.
        item["doc"].pop("defs", None)
        found[name] = item
    return found


def densities(case: Case) -> tuple[Draw, str]:
    """The proposals and what they should match, and a text alternative."""
    found = densities_of(*case.arguments)

    def draw(dark: bool) -> list[LayoutDOM]:
        view = DensityView(found, dark=dark)
        view.show(found)
        view.describe(found)
        return [pane.object for pane in view.panel.select(pn.pane.Bokeh)]

    return draw, found.about()


def _rendered(text: str, *pictures: Callable[..., Any]) -> tuple[Draw, str]:
    """HoloViews pictures, drawn for either theme, with their text alternative."""

    def draw(dark: bool) -> list[LayoutDOM]:
        figures = [hv.render(each(dark=dark), backend="bokeh") for each in pictures]
        for shown in figures:
            describe(shown, text)
            # Names of curves stand on the right.
            shown.toolbar_location = "above"
            shown.toolbar.logo = None
        return figures

    return draw, text


def errors(
    case: Case, estimators: Sequence[str] | None = None, runs: int = RUNS
) -> tuple[Draw, str]:
    """Error of each estimator against total draws."""
    found = amci.error_curves(
        *case.arguments,
        budgets=BUDGETS,
        runs=runs,
        estimators=estimators or shown_estimators(case.problem, case.proposals),
    )
    return _rendered(about_curves(found), partial(plots.error_curves, found))


def reuse(case: Case) -> tuple[Draw, str]:
    """The error over (alpha, beta)."""
    shares = np.linspace(0, 1, 33).tolist()
    found = amci.reuse_errors(*case.arguments, alphas=shares, betas=shares, runs=200)
    alpha, beta = case.shares
    return _rendered(about_reuse(found), partial(plots.reuse_map, found, alpha=alpha, beta=beta))


def amortization(case: Case) -> tuple[Draw, str]:
    """The quality of the proposals over a plane of (y, theta)."""
    problem, proposals, y, theta = case.arguments
    found = amci.amortization_map(problem, proposals, y=y, theta=theta, size=25, draws=128)
    return _rendered(about_map(found, {}), partial(plots.amortization_map, found))


def weights(case: Case) -> tuple[Draw, str]:
    """The weights of every term, and the verdict."""
    problem, proposals, *given = case.arguments
    y, theta = problem.check(*given)
    found = diagnosis(problem, proposals, y=y, theta=theta, draws=1000, seed=0).last()
    return _rendered(found.text, *(partial(weights_histogram, each) for each in found.terms))


def training(case: Case) -> tuple[Draw, str]:
    """The densities before and after the training of q1."""
    first, *_, last = amci.load_history(case.problem.name)
    (start, before), (end, after) = (
        densities(replace(case, proposals=each.proposals)) for each in (first, last)
    )
    words = f"Before its training: {before} After it: {after}"
    return lambda dark: [*start(dark), *end(dark)], words


# By the part of the page that shows the same live.
KINDS: Mapping[str, Callable[[Case], tuple[Draw, str]]] = {
    "errors": errors,
    "densities": densities,
    "own-f": densities,
    "evaluation": errors,
    "reuse": reuse,
    "map": amortization,
    "train": training,
    "film": training,
    "diagnostics": weights,
    "play": weights,
}

r"""Stored pictures: what they are of, and how they look on a light and on a dark page."""

from __future__ import annotations

__all__ = ["Case", "Picture", "legend", "line_of", "row"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.target import fallback_proposals
from amci_explorer.plots.colours import Style
from amci_explorer.problems.presets import opening
from amci_explorer.text import number

# The ground, the ink and the grid of a light and of a dark page.
GROUNDS = {False: ("#ffffff", "#1c2730", "#dfe4e8"), True: ("#1a2027", "#e3e9ee", "#36414b")}
SIZE = (6.4, 4.0)


@dataclass(frozen=True)
class Case:
    """What a stored picture is of.

    Arguments:
        problem: A problem's name.
        y: The observation, () where there is none.
        theta: Likewise.
        variant: Which proposals; None for the first.
        f: Another f in the place of the problem's own, an expression; empty for none.
        shares: alpha and beta of sample reuse.
    """

    problem: str
    y: tuple[float, ...]
    theta: tuple[float, ...]
    variant: str | None = None
    f: str = ""
    shares: tuple[float, float] = (1.0, 0.0)

    @classmethod
    def of(cls, state: Mapping[str, Any], problem: str) -> Case:
        """The case that a step's state says.

        Arguments:
            state: Fields of the page.
            problem: The problem, where the state names none.
        """
        name = str(state.get("problem", problem))
        y, theta = opening(amci.problem(name))
        return cls(
            problem=name,
            y=row(state.get("y", y)),
            theta=row(state.get("theta", theta)),
            variant=state.get("variant") or None,
            f=state.get("f", ""),
            shares=(float(state.get("alpha", 1.0)), float(state.get("beta", 0.0))),
        )

    @cached_property
    def given(self) -> tuple[Problem, Proposals]:
        """The problem, and proposals for it; with another f, what stands in for them."""
        problem = amci.problem(self.problem)
        proposals = amci.load_proposals(problem, variant=self.variant)
        if not self.f:
            return problem, proposals
        target = amci.with_target(problem, self.f)
        return target, fallback_proposals(target, proposals)

    @property
    def pair(self) -> tuple[list[float] | None, list[float] | None]:
        """y and theta as the core takes them."""
        return list(self.y) or None, list(self.theta) or None

    def __str__(self) -> str:
        of = {"y": self.y, "θ": self.theta}
        at = [f"{k} = {', '.join(number(v) for v in row)}" for k, row in of.items() if row]
        other = [f"f = {self.f}"] if self.f else []
        return "; ".join([amci.problem(self.problem).title, *other, *at])


@dataclass(frozen=True)
class Picture:
    """A picture that is drawn for a light and for a dark page.

    Arguments:
        draw: Draws it on axes, for a dark page or not.
        alternative: What it shows, in words.
        caption: What it is of.
    """

    draw: Callable[[Axes, bool], None]
    alternative: str
    caption: str

    def svg(self, *, dark: bool) -> bytes:
        """The picture as SVG; the same picture gives the same bytes."""
        ground, ink, grid = GROUNDS[dark]
        inks = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
        grounds = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
        settings: dict[str, Any] = {
            **dict.fromkeys(inks, ink),
            **dict.fromkeys(grounds, ground),
            "grid.color": grid,
            "axes.grid": True,
            "axes.axisbelow": True,
            "font.size": 10.0,
            "legend.frameon": False,
            "svg.fonttype": "none",
            "svg.hashsalt": "amci",
        }
        out = BytesIO()
        with rc_context(settings):
            figure = Figure(figsize=SIZE, layout="constrained")
            FigureCanvasSVG(figure)
            self.draw(figure.subplots(), dark)
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        return out.getvalue()


def line_of(style: Style, dark: bool) -> dict[str, Any]:
    """How matplotlib draws a line of that style."""
    dash = (0, tuple(step / 2 for step in style.dash)) if style.dash else "solid"
    return {"color": style.colour(dark), "linestyle": dash, "label": style.label, "lw": 1.8}


def legend(panel: Axes) -> None:
    """A legend below the axes, of all that has a name."""
    handles, names = panel.get_legend_handles_labels()
    panel.figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 3))


def row(value: Any) -> tuple[float, ...]:
    """Numbers of y or theta: a sequence, one number, or a text with commas, as links have it."""
    if isinstance(value, str):
        value = [part for part in value.split(",") if part]
    return tuple(float(v) for v in (value if isinstance(value, list | tuple) else [value]))

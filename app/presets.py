r"""What the page says of a problem: where it opens, what to watch, what controls are called."""

from __future__ import annotations

__all__ = [
    "ANYWHERE",
    "LABELS",
    "PRESETS",
    "Preset",
    "about_truth",
    "coordinate_names",
    "coordinates",
    "opening",
    "pairs",
    "presets",
    "variable_labels",
    "where_f_is",
]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from amci_core.models import Problem, Variable
from app.words.numbers import odds, subscript


@dataclass(frozen=True)
class Preset:
    """A point (y, theta) worth looking at, with one sentence on what to watch there.

    Fields left at None keep what the user has chosen.
    """

    name: str
    y: tuple[float, ...]
    theta: tuple[float, ...] | None
    watch: str
    variant: str | None = None
    draws: int | None = None
    alpha: float | None = None
    beta: float | None = None
    card: str | None = None


# By the problem's name; the first is where the page opens.
PRESETS: Mapping[str, Sequence[Preset]] = {
    "tail-1d": (
        Preset(
            name="Large mismatch",
            y=(1.0,),
            theta=(3.0,),
            watch="One posterior draw in 4,900 lands above θ: SNIS with q₂ stays near "
            "error 1 for thousands of draws, while AMCI draws where f is.",
        ),
        Preset(
            name="Small mismatch",
            y=(3.0,),
            theta=(0.1,),
            watch="Nearly all of the posterior lies above θ, so q₁ and q₂ look alike: plain "
            "SNIS is good here, and AMCI's lead shrinks to about a factor of ten.",
        ),
        Preset(
            name="Failure: q₂ never arrives",
            y=(-2.0,),
            theta=(3.0,),
            watch="Above θ lies one part in 130 million of the posterior: SNIS with q₂ "
            "answers exactly 0, run after run, with 64 of 64 effective draws. Only that none "
            "of them lies above θ gives it away.",
        ),
        Preset(
            name="Failure: far from training",
            y=(-4.0,),
            theta=(5.0,),
            variant="paper",
            card="diagnostics",
            watch="The paper's proposals were not trained on a y so far below θ: q₁ misses "
            "most of g. AMCI stays at a quarter of the truth, and its own draws look fine: all "
            "of them count. Draws of a broad reference see what q₁ misses, so that the "
            "standard error is beyond the estimate and the verdict, under Diagnostics, says "
            "what is wrong; more draws do not help.",
        ),
        Preset(
            name="Failure: careless sharing",
            y=(1.0,),
            theta=(3.0,),
            alpha=1.0,
            beta=0.5,
            card="reuse",
            watch="Look at Sample reuse, below. Half of E₂ now comes from q₁, which never "
            "sees the bulk of the posterior: E₂ comes out at half its size and the estimate "
            "at twice the truth.",
        ),
    ),
    "tail-5d": (
        Preset(
            name="Large mismatch",
            y=(0.5,) * 5,
            theta=(1.0,) * 5,
            watch="One posterior draw in 3,200 lands above θ in all five coordinates: SNIS with "
            "q₂ stays near error 1 for thousands of draws, while AMCI draws where f is.",
        ),
        Preset(
            name="Small mismatch",
            y=(3.0,) * 5,
            theta=(0.1,) * 5,
            watch="96 % of the posterior lies above θ, so q₁ and q₂ look alike and plain SNIS is "
            "good: there is little left for a proposal of its own to gain.",
        ),
        Preset(
            name="Failure: q₂ never arrives",
            y=(0.0,) * 5,
            theta=(2.0,) * 5,
            watch="Above θ lies one part in 170 billion of the posterior: SNIS with q₂ answers "
            "exactly 0, run after run, with 64 of 64 effective draws. Only that none of them lies "
            "above θ gives it away.",
        ),
    ),
    "cancer": (
        Preset(
            name="Good response",
            y=(900.0, 60.0),
            theta=None,
            watch="The tumour shrank from 900 to 60 in five days, and the treatment succeeds "
            "with probability 0.93: f hardly varies under the posterior, so plain SNIS "
            "is nearly as good as its bound.",
        ),
        Preset(
            name="Open question",
            y=(600.0, 250.0),
            theta=None,
            watch="Success has probability 0.43: the posterior reaches over both sides of the "
            "step in f, and the mismatch is only 0.3 nats.",
        ),
        Preset(
            name="Rare success",
            y=(500.0, 900.0),
            theta=None,
            watch="The tumour grew from 500 to 900, and success has probability 5 in 100,000: "
            "one posterior draw in 31,000 has f above one half, and nearly all of the sum "
            "comes from draws like these.",
        ),
    ),
    "gain-loss": (
        Preset(
            name="Gains and losses cancel",
            y=(1.0,),
            theta=(0.4,),
            watch="Gains and losses are nearly equal, and their difference is a sixth of "
            "their sum: E₁⁺ and E₁⁻ must both be right.",
        ),
        Preset(
            name="A rare gain",
            y=(-1.0,),
            theta=(2.0,),
            watch="Nearly all of the posterior lies below the price: the gain matters little "
            "for μ, but q₁⁺ draws it as exactly as q₁⁻ draws the loss.",
        ),
        Preset(
            name="A sure gain",
            y=(4.0,),
            theta=(-2.0,),
            watch="The loss is one part in four billion of the gain: q₁⁻ hardly matters, and "
            "q₂ is a good proposal for everything.",
        ),
    ),
    "peak": (
        Preset(
            name="A hill",
            y=(),
            theta=(0.5, 0.5, 0.1),
            watch="The peak covers the square: uniform draws do nearly as well as q₁.",
        ),
        Preset(
            name="A needle",
            y=(),
            theta=(0.3, 0.7, 1.0),
            watch="The peak has the width of a hundredth: of a hundred uniform draws none "
            "may hit it, and those of q₁ all do.",
        ),
        Preset(
            name="A needle in the corner",
            y=(),
            theta=(0.0, 1.0, 1.0),
            watch="Only a quarter of the peak lies inside; q₁ lives on the square alone.",
        ),
    ),
}

# By the names of problem and variable: one where coordinates are alike, else one for each.
LABELS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "tail-1d": {"y": ("Observation y",), "theta": ("Threshold θ",)},
    "tail-5d": {"y": ("Observation y",), "theta": ("Threshold θ",)},
    "cancer": {
        "x": ("size c₀ at admission", "response ε, per day"),
        "y": ("Size c₀′ at admission", "Size c₅′ after 5 days"),
    },
    "gain-loss": {"y": ("Observation y",), "theta": ("Price θ",)},
    "peak": {"theta": ("Centre u₁", "Centre u₂", "Sharpness s")},
}

# What mu is, in words, of log|mu| in nats: by the problem's name.
TRUTHS: Mapping[str, Callable[[float], str]] = {
    "tail-1d": odds,
    "tail-5d": odds,
    "cancer": lambda _: "the probability that the treatment succeeds",
    "gain-loss": lambda _: "what the position is worth",
    "peak": lambda _: "the integral of the peak",
}
# Where f is not zero, in words: by the problem's name, or for all others.
REGIONS = {"tail-1d": "above θ", "tail-5d": "above θ"}
ANYWHERE = "where f is not zero"


def about_truth(problem: Problem, log_truth: float) -> str:
    """What mu is, in words."""
    about = TRUTHS.get(problem.name)
    return "" if about is None else about(log_truth)


def where_f_is(problem: Problem) -> str:
    """Where f is not zero, in words."""
    return REGIONS.get(problem.name, ANYWHERE)


def presets(problem: Problem) -> Sequence[Preset]:
    """Points worth looking at; empty where there are none."""
    return PRESETS.get(problem.name, ())


def opening(problem: Problem) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """y and theta where the page opens: the first preset's, else a typical case.

    Each is empty where the problem has none.
    """
    for first in presets(problem)[:1]:
        return first.y, first.theta or ()
    y, theta = (() if v is None else tuple(map(float, v)) for v in problem.typical_case())
    return y, theta


def variable_labels(problem: Problem, variable: Variable) -> tuple[str, ...]:
    """What controls for a variable are called: one name where its coordinates are alike."""
    return LABELS.get(problem.name, {}).get(variable.name, (variable.name,))


def coordinate_names(problem: Problem) -> tuple[str, ...]:
    """What the coordinates of x are called."""
    known = LABELS.get(problem.name, {}).get("x")
    several = tuple(f"x{subscript(i + 1)}" for i in range(problem.x.dim))
    return known or (several if problem.x.dim > 1 else ("x",))


def coordinates(names: Sequence[str]) -> dict[int, str]:
    """The coordinates of x that can be looked at, from 1 on, and their names."""
    return dict(enumerate(names, 1))


def pairs(names: Sequence[str]) -> dict[tuple[int, int], str]:
    """The pairs of them, likewise; of one coordinate it and itself."""
    several = combinations(range(1, len(names) + 1), 2)
    found = {(i, j): f"{names[i - 1]}, {names[j - 1]}" for i, j in several}
    return found or {(1, 1): names[0]}

r"""How the proposals of a variant are built and trained: `recipe.json` beside the weights it made.

A budget of time gives a number of steps by the recipe's nominal speed, measured on one core, and
never by a clock: the same seed and budget give the same weights however busy the machine is.
"""

from __future__ import annotations

__all__ = [
    "Recipe",
    "TermRecipe",
    "parse_budget",
    "read_recipe",
    "recipe",
    "variants",
    "with_source",
]

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from amci_core.estimators import PROPOSALS
from amci_core.files import Kinds, StoredFileError, check_object, pretrained_root, read_json
from amci_core.flows import FAMILIES
from amci_core.training.film import FRAMES, LARGEST_FILM
from amci_core.training.objectives import OBJECTIVES
from amci_core.training.optimizers import OPTIMIZERS
from amci_core.training.targets import SOURCES

FILE = "recipe.json"
DEFAULT_VARIANT = "spline"
NUMBER: Kinds = (int, float)
RECIPE: dict[str, Kinds] = dict(note=(str,), budget_minutes=NUMBER, film=(int,), terms=(dict,))
TERM: dict[str, Kinds] = {
    "family": (str,),
    "arguments": (dict,),
    "objective": (str,),
    "settings": (dict,),
    "optimizer": (str,),
    "learning_rate": NUMBER,
    "annealed": (bool,),
    "steps_per_minute": (int,),
    "share": NUMBER,
}
KNOWN: Mapping[str, Mapping[str, Any]] = {
    "family": FAMILIES,
    "objective": OBJECTIVES,
    "optimizer": OPTIMIZERS,
}


@dataclass(frozen=True)
class TermRecipe:
    """One proposal: its family, its objective and its share of the budget.

    Arguments:
        family: Name in `amci_core.flows.FAMILIES`.
        arguments: Arguments of the family's constructor.
        objective: `refine` or `paper`, see `amci_core.training.objectives`.
        settings: Arguments of the objective.
        optimizer: `adam` or `soap`, see `amci_core.training.optimizers`.
        learning_rate: Its largest learning rate.
        annealed: Whether the rate falls to zero along a cosine after a short warm-up, or stays.
        steps_per_minute: Nominal speed on one core.
        share: Share of the time budget.
    """

    family: str
    arguments: Mapping[str, Any]
    objective: str
    settings: Mapping[str, Any]
    optimizer: str
    learning_rate: float
    annealed: bool
    steps_per_minute: int
    share: float


@dataclass(frozen=True)
class Recipe:
    """The proposals of a variant, in the order in which they are trained.

    Arguments:
        terms: Proposal name to its recipe.
        budget_minutes: Default budget, in minutes of one core.
        film: Frames of the film, moments of the training of q1_plus; at most.
        note: What there is to know, in a sentence.
    """

    terms: Mapping[str, TermRecipe]
    budget_minutes: float
    note: str
    film: int = FRAMES

    def steps(self, name: str, minutes: float) -> int:
        """Number of steps that a budget in minutes gives to a proposal."""
        term = self.terms[name]
        return max(1, round(minutes * term.share * term.steps_per_minute))


def variants(problem: str) -> tuple[str, ...]:
    """Names of the variants that can be trained for a problem, the default first.

    Example:
        >>> variants("tail-1d")
        ('spline', 'paper')
    """
    found = {path.parent.name for path in (pretrained_root() / str(problem)).glob(f"*/{FILE}")}
    return tuple(sorted(found, key=lambda name: (name != DEFAULT_VARIANT, name)))


def recipe(problem: str, variant: str) -> Recipe:
    """The recipe of that variant, from `pretrained/<problem>/<variant>/recipe.json`.

    Raises:
        ValueError: the problem has no such variant to train.
        StoredFileError: the recipe is not one; see `read_recipe`.

    Example:
        >>> recipe("tail-1d", "paper").terms["q1_plus"].objective
        'paper'
    """
    if variant not in variants(problem):
        raise ValueError(
            f"variant: expected one of {', '.join(variants(problem)) or 'none'}, got {variant!r}"
        )
    return read_recipe(pretrained_root() / problem / variant / FILE)


def read_recipe(path: Path) -> Recipe:
    """Reads a recipe; `path` is the file or the folder with its `recipe.json`.

    Raises:
        StoredFileError: the file cannot be read, or an entry is missing, unknown, of another type
            or out of range; the message names file and entry.
    """
    path = path / FILE if path.is_dir() else path

    def expect(met: bool, expected: str, place: str, value: Any) -> None:
        if not met:
            raise StoredFileError(f"{path}: expected {expected} as {place}, got {value!r}")

    def expect_number(place: str, value: float, most: float) -> None:
        expect(0 < value <= most, f"a number above 0 and at most {most:g}", place, value)

    content = read_json(path)
    check_object(path, content, RECIPE, only=True)
    expect_number("budget_minutes", content["budget_minutes"], 24 * 60)
    film = content["film"]
    expect(2 <= film <= LARGEST_FILM, f"2 to {LARGEST_FILM} frames", "film", film)
    expect("q1_plus" in content["terms"], "an object with q1_plus", "terms", [*content["terms"]])
    for name, term in content["terms"].items():
        within = f"terms.{name}"
        expect(name in PROPOSALS, " or ".join(PROPOSALS), "the name of a term", name)
        check_object(path, term, TERM, within=within, only=True)
        for key, known in KNOWN.items():
            expect(term[key] in known, " or ".join(known), f"{within}.{key}", term[key])
        for key, most in (("learning_rate", 1.0), ("steps_per_minute", 1e9), ("share", 1.0)):
            expect_number(f"{within}.{key}", term[key], most)
    terms = {name: TermRecipe(**term) for name, term in content["terms"].items()}
    return Recipe(terms, content["budget_minutes"], content["note"], film)


def parse_budget(text: str) -> float:
    """A budget such as `90s`, `10m` or `1.5h`, in minutes.

    Raises:
        ValueError: it is not of that form, or not between one second and 24 hours.

    Example:
        >>> parse_budget("90s")
        1.5
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", str(text).strip())
    minutes = float(match[1]) * {"s": 1 / 60, "m": 1, "h": 60}[match[2]] if match else 0.0
    if not 1 / 60 <= minutes <= 24 * 60:
        raise ValueError(f"budget: expected 1s to 24h, such as 90s, 10m or 1.5h, got {text!r}")
    return minutes


def with_source(chosen: Recipe, source: str | None) -> Recipe:
    """The recipe with its draws of theta and x from that source, by default from importance draws.

    Raises:
        ValueError: there is no such source, or the recipe's objective takes none.
    """
    paper = {name: term for name, term in chosen.terms.items() if term.objective == "paper"}
    if source is not None and not paper:
        raise ValueError(
            f"source: only variants on the paper's objective take one, got {source!r}"
        )
    if source is not None and source not in SOURCES:
        raise ValueError(f"source: expected one of {', '.join(SOURCES)}, got {source!r}")
    setting = {"source": source or "importance"}
    taken = {name: replace(t, settings={**t.settings, **setting}) for name, t in paper.items()}
    return replace(chosen, terms={**chosen.terms, **taken})

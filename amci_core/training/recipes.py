r"""How the proposals of a variant are built and trained: `recipe.json` beside the weights it made.

A budget of time gives a number of steps by the recipe's nominal speed, measured on one core, and
never by a clock: the same seed and budget give the same weights however busy the machine is.
"""

from __future__ import annotations

__all__ = ["Recipe", "TermRecipe", "read_recipe", "recipe", "variants", "with_source"]

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from amci_core.estimators import PROPOSALS
from amci_core.files import Kinds, StoredFileError, check_object, pretrained_root, read_json
from amci_core.flows import FAMILIES
from amci_core.training.data import SOURCES
from amci_core.training.objectives import OBJECTIVES

FILE = "recipe.json"
DEFAULT_VARIANT = "spline"
NUMBER: Kinds = (int, float)
RECIPE: dict[str, Kinds] = {
    "note": (str,),
    "budget_minutes": NUMBER,
    "film": (list,),
    "terms": (dict,),
}
TERM: dict[str, Kinds] = {
    "family": (str,),
    "arguments": (dict,),
    "objective": (str,),
    "settings": (dict,),
    "learning_rate": NUMBER,
    "annealed": (bool,),
    "steps_per_minute": (int,),
    "share": NUMBER,
}


@dataclass(frozen=True)
class TermRecipe:
    """One proposal: its family, its objective and its share of the budget.

    Arguments:
        family: Name in `amci_core.flows.FAMILIES`.
        arguments: Arguments of the family's constructor.
        objective: `refine` or `paper`, see `amci_core.training.objectives`.
        settings: Arguments of the objective.
        learning_rate: Largest learning rate of Adam.
        annealed: Whether the rate falls to zero along a cosine after a short warm-up, or stays.
        steps_per_minute: Nominal speed on one core.
        share: Share of the time budget.
    """

    family: str
    arguments: Mapping[str, Any]
    objective: str
    settings: Mapping[str, Any]
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
        film: Fractions of the training of q1_plus at which a snapshot is kept.
        note: What there is to know, in a sentence.
    """

    terms: Mapping[str, TermRecipe]
    budget_minutes: float
    note: str
    film: tuple[float, ...] = field(default=(0.0, 0.001, 0.003, 0.01, 0.05, 0.2, 1.0))

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
    found = {path.parent.name for path in (pretrained_root() / problem).glob(f"*/{FILE}")}
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
    content = read_json(path)
    _check(path, content, RECIPE, within="")
    _positive(path, "budget_minutes", content["budget_minutes"], most=24 * 60)
    film = content["film"]
    if not all(type(moment) in NUMBER and 0 <= moment <= 1 for moment in film):
        raise StoredFileError(f"{path}: expected fractions from 0 to 1 as film, got {film!r}")
    terms = {name: _term(path, name, entry) for name, entry in content["terms"].items()}
    if "q1_plus" not in terms:
        raise StoredFileError(f"{path}: terms.q1_plus is missing")
    return Recipe(terms, content["budget_minutes"], content["note"], tuple(film))


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
    taken = {
        name: replace(term, settings={**term.settings, "source": source or "importance"})
        for name, term in paper.items()
    }
    return replace(chosen, terms={**chosen.terms, **taken})


def _term(path: Path, name: str, entry: Any) -> TermRecipe:
    within = f"terms.{name}"
    _one_of(path, "the name of a term", name, PROPOSALS)
    _check(path, entry, TERM, within=within)
    _one_of(path, f"{within}.family", entry["family"], FAMILIES)
    _one_of(path, f"{within}.objective", entry["objective"], OBJECTIVES)
    for key, most in (("learning_rate", 1.0), ("steps_per_minute", 1e9), ("share", 1.0)):
        _positive(path, f"{within}.{key}", entry[key], most=most)
    return TermRecipe(**entry)


def _check(path: Path, entry: Any, kinds: Mapping[str, Kinds], *, within: str) -> None:
    check_object(path, entry, kinds, within=within)
    for key in entry.keys() - kinds.keys():
        raise StoredFileError(
            f"{path}: expected {', '.join(kinds)} in {within or 'a recipe'}, got {key!r} too"
        )


def _one_of(path: Path, place: str, value: str, known: Any) -> None:
    if value not in known:
        raise StoredFileError(f"{path}: expected {', '.join(known)} as {place}, got {value!r}")


def _positive(path: Path, place: str, value: float, *, most: float) -> None:
    if not (math.isfinite(value) and 0 < value <= most):
        raise StoredFileError(
            f"{path}: expected a number above 0 and at most {most:g} as {place}, got {value!r}"
        )

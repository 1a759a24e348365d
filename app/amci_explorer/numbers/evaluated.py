r"""Errors over many cases: what is stored with proposals, and small sweeps made on the page."""

from __future__ import annotations

__all__ = [
    "BUDGETS",
    "Evaluated",
    "is_stored",
    "live",
    "stored",
    "why_not_stored",
]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import amci_core as amci
from amci_core._arguments import part_seed
from amci_core.estimators.draws import Array
from amci_core.evaluation import Cases, Sweep, read_sweep
from amci_core.evaluation.runs import BOUND, default_estimators
from amci_core.flows import Proposals
from amci_core.io import pretrained_root
from amci_core.models import Problem
from amci_core.parallel import Stream
from amci_explorer.problems import registry
from amci_explorer.problems.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

# Total draws of a sweep on the page: those of the stored ones.
BUDGETS = (2, 10, 100, 1000)
CASES = "cases.parquet"
# What the file of the cases and the card must agree on.
SETTINGS = ("problem", "variant", "weights", "cases", "runs", "budgets", "seed")


@dataclass(frozen=True)
class Evaluated:
    """Errors of estimators over cases, for B budgets.

    Arguments:
        budgets: Total draws, B of them.
        wanted: Requested number of cases.
        runs: Independent runs of each case.
        seed: The seed of cases and runs.
        estimators: For each what `Cases.summary` gives, over budgets.
        against_bound: For each the shares of cases below the bound, surely below, and undecided,
            over budgets; empty without the bound.
        cases: The single cases; None where there are none.
        left_out: Number of cases that could not be computed.
        remark: Why there are no single cases, in a sentence.
    """

    budgets: tuple[int, ...]
    wanted: int
    runs: int
    seed: int
    estimators: Mapping[str, Mapping[str, Sequence[float]]]
    against_bound: Mapping[str, tuple[Sequence[float], ...]]
    cases: Cases | None = None
    left_out: int = 0
    remark: str = ""

    @property
    def done(self) -> int:
        """How many cases there are, or were left out."""
        return self.wanted if self.cases is None else len(self.cases) + self.left_out

    @property
    def counted(self) -> int:
        """How many cases the figures are of."""
        return self.done - self.left_out

    @classmethod
    def of_card(cls, card: Mapping[str, Any]) -> Evaluated:
        """What `evaluation.json` holds, without the single cases."""
        names = ("below_bound", "surely_below_bound", "undecided_bound")
        shares = [card.get(name, {}) for name in names]
        shared = set.intersection(*map(set, shares))
        return cls(
            budgets=tuple(card["budgets"]),
            wanted=card["cases"],
            runs=card["runs"],
            seed=card.get("seed", 0),
            estimators=card["estimators"],
            against_bound={
                n: tuple(share[n] for share in shares) for n in shares[0] if n in shared
            },
            left_out=len(card.get("failures", {})),
        )

    @classmethod
    def of_cases(cls, found: Sequence[pa.Table | None], **about: Any) -> Evaluated:
        """What the first cases of a sweep say; None for one that was left out."""
        import pyarrow as pa

        there = [rows for rows in found if rows is not None]
        if not there:
            return cls(estimators={}, against_bound={}, left_out=len(found), **about)
        cases = Cases(pa.concat_tables(there))
        drawn = [name for name in cases.by_name if name != BOUND and BOUND in cases.by_name]
        return cls(
            estimators={name: cases.summary(name) for name in cases.by_name},
            against_bound={name: cases.against_bound(name) for name in drawn},
            cases=cases,
            left_out=len(found) - len(there),
            **about,
        )


def is_stored(choice: Settings) -> bool:
    """Whether an evaluation is stored with the proposals that were chosen."""
    return choice.snapshot is None and bool(_card(choice))


def why_not_stored(choice: Settings) -> str:
    """Why there is none, in a sentence; empty where there is one."""
    if is_stored(choice):
        return ""
    if registry.split(choice.problem)[1]:
        of = "another f"
    elif choice.snapshot is not None:
        of = "a frame of the training film"
    else:
        of = f"the {choice.variant} proposals of this problem"
    return f"No evaluation is stored for {of}. Choose live to run a small one."


def chosen(choice: Settings) -> Settings:
    """A choice without what a stored evaluation does not depend on."""
    card = _card(choice)
    runs, seed = card["runs"], card.get("seed", 0)
    return replace(choice, y=(), theta=(), draws=0, runs=runs, seed=seed)


def summary(choice: Settings) -> Evaluated:
    """What is stored with proposals, without the single cases."""
    return Evaluated.of_card(_card(choice))


def stored(choice: Settings) -> Stream[Evaluated]:
    """What is stored with proposals, in a single part; with the cases, where they are."""

    def part(_: int) -> Evaluated:
        found = summary(choice)
        cases, remark = _cases(choice)
        return replace(found, cases=cases, remark=remark)

    return Stream(1, part, lambda parts: parts[0])


def live(
    problem: Problem, proposals: Proposals, *, cases: int, runs: int, seed: int
) -> Stream[Evaluated]:
    """A small sweep, one more case with each part.

    Where the problem does not know its truth, each case's is a reference value; a case that has
    none is left out.
    """
    names = default_estimators(problem, proposals)
    settings: dict[str, Any] = {"budgets": BUDGETS, "runs": runs, "estimators": names}
    about = {"budgets": BUDGETS, "wanted": cases, "runs": runs, "seed": seed}
    if problem.knows_truth:
        part: Any = Sweep(problem, proposals, cases=cases, seed=seed, **settings).errors
    else:
        import pyarrow as pa

        y, theta = problem.cases(cases, seed=seed)

        def part(number: int) -> pa.Table | None:
            case = _row(y, number), _row(theta, number)
            try:
                truth = amci.reference_value(problem, *case, relative_error=1e-4, draws=100_000)
            except ValueError:
                return None
            of_case = int(part_seed(seed, number).generate_state(1)[0])
            sweep = Sweep(problem, proposals, cases=case, truth=truth, seed=of_case, **settings)
            rows = sweep.errors(0)
            return rows.set_column(0, "case", pa.array([number] * len(rows)))

    return Stream(cases, part, lambda found: Evaluated.of_cases(found, **about))


def _row(values: Array | None, number: int) -> Array | None:
    return None if values is None else values[number : number + 1]


def _card(choice: Settings) -> dict[str, Any]:
    """What `evaluation.json` of the proposals holds; empty where there is none.

    Proposals whose weights are others than those it judges are never loaded.
    """
    if choice.revision or registry.split(choice.problem)[1]:
        return {}
    proposals = registry.proposals(choice.problem, choice.variant)
    return proposals.card.get("evaluation") or {}


def _cases(choice: Settings) -> tuple[Cases | None, str]:
    """The single cases of a stored evaluation; or None, and why."""
    path = pretrained_root() / choice.problem / choice.variant / CASES
    if choice.problem in registry.OWN:
        return None, "Single cases are available only for the package's own problems."
    if not path.is_file():
        return None, "The single cases are not stored."
    noted, table = read_sweep(path)
    card, settings = _card(choice), noted.get("settings", {})
    if any(card.get(name, settings.get(name)) != settings.get(name) for name in SETTINGS):
        return None, "The stored single cases belong to another evaluation and are left out."
    return Cases(table), ""

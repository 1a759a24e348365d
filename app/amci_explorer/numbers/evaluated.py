r"""Errors over many cases: what is stored with proposals, and small sweeps made on the page."""

from __future__ import annotations

__all__ = ["TOTALS", "Evaluated", "chosen", "live", "stored"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import amci_core as amci
from amci_core._arguments import part_seed
from amci_core.evaluation.cases import Cases, Sweep
from amci_core.evaluation.runs import BOUND, default_estimators
from amci_core.evaluation.sweep import read_sweep
from amci_core.flows import Proposals
from amci_core.io import pretrained_root
from amci_core.models import Problem
from amci_core.parallel import Stream
from amci_explorer.problems import registry
from amci_explorer.problems.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

# Total draws of a sweep on the page: those of the stored ones.
TOTALS = (2, 10, 100, 1000)
CASES = "cases.parquet"


@dataclass(frozen=True)
class Evaluated:
    """Errors of estimators over cases, for B totals.

    Arguments:
        draws: Total draws, B of them.
        wanted: Requested number of cases.
        runs: Independent runs of each case.
        seed: The seed of cases and runs.
        estimators: For each what `Cases.summary` gives, for each total.
        against_bound: For each the shares of cases surely below the bound, and undecided, over
            total; empty without the bound.
        cases: The single cases; None where there are none.
        left_out: How many cases have no reference value.
    """

    draws: tuple[int, ...]
    wanted: int
    runs: int
    seed: int
    estimators: Mapping[str, Mapping[str, Sequence[float]]]
    against_bound: Mapping[str, tuple[Sequence[float], ...]]
    cases: Cases | None = None
    left_out: int = 0

    @property
    def counted(self) -> int:
        """How many cases the figures are over."""
        return self.wanted * bool(self.estimators) if self.cases is None else len(self.cases)

    @property
    def done(self) -> int:
        """How many cases there are, with those that are left out."""
        return self.counted + self.left_out

    @classmethod
    def of_cases(cls, found: Sequence[pd.DataFrame | None], **about: Any) -> Evaluated:
        """What the first cases of a sweep say; None for a case that is left out.

        Raises:
            ValueError: all wanted cases are left out.
        """
        import pandas as pd

        rows = [case for case in found if case is not None]
        about["left_out"] = len(found) - len(rows)
        if about["left_out"] == about["wanted"]:
            raise ValueError("no case has a reference value")
        if not rows:
            return cls(estimators={}, against_bound={}, **about)
        cases = Cases(pd.concat(rows))
        drawn = [name for name in cases.by_name if name != BOUND and BOUND in cases.by_name]
        return cls(
            estimators={name: cases.summary(name) for name in cases.by_name},
            against_bound={name: cases.against_bound(name)[1:] for name in drawn},
            cases=cases,
            **about,
        )


def chosen(choice: Settings) -> Settings | None:
    """A choice without what a stored evaluation does not depend on; None if none is stored."""
    card = _card(choice)
    if not card:
        return None
    runs, seed = card["runs"], card.get("seed", 0)
    return replace(choice, y=(), theta=(), draws=0, runs=runs, seed=seed)


def stored(choice: Settings) -> Evaluated:
    """What is stored with proposals, with the single cases if they are there."""
    card, path = _card(choice), pretrained_root() / choice.problem / choice.variant / CASES
    shares = [card.get(name, {}) for name in ("surely_below_bound", "undecided_bound")]
    is_shipped = choice.problem not in registry.OWN and path.is_file()
    return Evaluated(
        draws=tuple(card["draws"]),
        wanted=card["cases"],
        runs=card["runs"],
        seed=card.get("seed", 0),
        estimators=card["estimators"],
        against_bound={
            name: tuple(share[name] for share in shares)
            for name in shares[0].keys() & shares[1].keys()
        },
        cases=Cases(read_sweep(path)[1]) if is_shipped else None,
    )


def live(
    problem: Problem, proposals: Proposals, *, cases: int, runs: int, seed: int
) -> Stream[Evaluated]:
    """A small sweep, one more case with each part.

    Where the problem does not know its truth, each case's is a reference value; a case without
    one is left out.
    """
    names = default_estimators(problem, proposals)
    settings: dict[str, Any] = {"draws": TOTALS, "runs": runs, "estimators": names}
    about = {"draws": TOTALS, "wanted": cases, "runs": runs, "seed": seed}
    if problem.knows_truth:
        part: Any = Sweep(problem, proposals, cases=cases, seed=seed, **settings).errors
    else:
        y, theta = problem.cases(cases, seed=seed)

        def part(number: int) -> pd.DataFrame | None:
            case: Any = tuple(None if v is None else v[number : number + 1] for v in (y, theta))
            try:
                truth = amci.reference_value(problem, *case, relative_error=1e-4, draws=100_000)
            except ValueError:
                return None
            of_case = int(part_seed(seed, number).generate_state(1)[0])
            sweep = Sweep(problem, proposals, cases=case, truth=truth, seed=of_case, **settings)
            return sweep.errors(0).assign(case=number)

    return Stream(cases, part, lambda found: Evaluated.of_cases(found, **about))


def _card(choice: Settings) -> dict[str, Any]:
    """What `evaluation.json` of the proposals holds; empty where there is none."""
    if choice.snapshot is not None or choice.revision or registry.split(choice.problem)[1]:
        return {}
    proposals = registry.proposals(choice.problem, choice.variant)
    return proposals.card.get("evaluation") or {}

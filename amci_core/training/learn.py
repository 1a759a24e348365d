r"""Training in memory, step by step in view: for notebooks, and for problems of one's own."""

from __future__ import annotations

__all__ = ["learn", "stream_learning", "usual_terms"]

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from amci_core.checks import check_count, check_seed
from amci_core.flows import Proposals, Trainable
from amci_core.flows.supports import half_line
from amci_core.models import Problem, Variable
from amci_core.streams import last_item
from amci_core.training.fit import REPORTS, Fit, Progress, run_in_turn
from amci_core.training.recipes import TermRecipe

VARIANT = "learnt"
MAX_STEPS = 10**7
# From this many prior draws the usual terms take where coordinates lie.
SCOUTS = 4096
HIDDEN = [64, 64]


def stream_learning(
    problem: Problem,
    terms: Mapping[str, TermRecipe] | None = None,
    *,
    steps: int = 2000,
    seed: int = 0,
) -> Iterator[tuple[Progress, Proposals]]:
    """Trains proposals for a problem, registered or not, and keeps them in memory.

    `amci_core.save_proposals` writes them to a folder; `amci_core.training.train` trains what
    comes with the package, with checkpoints.

    Arguments:
        problem: What is to be integrated.
        terms: For each proposal how it is built and trained; by default `usual_terms`.
        steps: Steps for each proposal.
        seed: Whole number >= 0; the same seed gives the same weights on the same machine.

    Yields:
        Where training stands, and the proposals as they are then: some hundred times for each
        proposal, at most every fifth step, one proposal after the other. The later ones are
        untrained until it is their turn. The last item holds the best of each.

    Raises:
        ValueError: an argument is out of range, or terms do not fit the problem.
        TrainingDiverged: a loss, a gradient or a parameter was not finite.

    Warning:
        Where cores are busy call `torch.set_num_threads(1)` first. Proposals can miss what their
        reference misses: look at the verdict of `amci_core.estimate`.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = learn(problem, {"q1_plus": usual_terms(problem)["q1_plus"]}, steps=1)
        >>> proposals.variant, proposals.present
        ('learnt', (0,))
    """
    check_count("steps", steps, low=1, high=MAX_STEPS)
    check_seed(seed)
    chosen = usual_terms(problem) if terms is None else terms
    if not isinstance(chosen, Mapping) or "q1_plus" not in chosen:
        raise ValueError(f"terms: expected recipes with one for q1_plus, got {chosen!r}")
    cpu, reports = torch.device("cpu"), max(1, min(REPORTS, steps // 5))
    fits = {
        name: Fit(problem, name, term, steps=steps, seed=seed, device=cpu, reports=reports)
        for name, term in chosen.items()
    }
    recipes = {name: asdict(term) for name, term in chosen.items()}
    configuration = {
        "seed": seed,
        "steps": dict.fromkeys(chosen, steps),
        "recipe": recipes,
        "proposals": {
            name: {key: term[key] for key in ("family", "arguments")}
            for name, term in recipes.items()
        },
    }

    def stream() -> Iterator[tuple[Progress, Proposals]]:
        flows = {name: _usable(fit.proposal) for name, fit in fits.items()}
        for fit, progress in run_in_turn(fits):
            last = progress.step == fit.steps
            flows[fit.name] = _usable(fit.best_proposal() if last else fit.proposal)
            ready = Proposals(
                problem=problem.name,
                variant=VARIANT,
                q1_plus=flows["q1_plus"],
                q1_minus=flows.get("q1_minus"),
                q2=flows.get("q2"),
                card={"configuration": configuration},
            )
            yield progress, ready

    return stream()


def _proposals_of(item: tuple[Progress, Proposals]) -> Proposals:
    return item[1]


learn = last_item(stream_learning, name="learn", take=_proposals_of)


def _usable(flow: Trainable) -> Trainable:
    return copy.deepcopy(flow).double().eval().requires_grad_(False)


def usual_terms(problem: Problem) -> dict[str, TermRecipe]:
    """Splines for every term, coordinate by coordinate, on the range that x declares.

    In one dimension q1_plus and q1_minus live on f's half-line, where it has one.

    Raises:
        ValueError: a coordinate of x has a range for which there is no spline.
    """
    x = problem.sample_prior(SCOUTS, torch.Generator().manual_seed(0)).double()
    spline = {"bins": 16, "coordinates": _coordinates(problem.x, x)}
    line = _term("autoregressive-spline", problem, **spline)
    terms = {"q1_plus": _own(problem, line)}
    if not problem.nonnegative:
        terms["q1_minus"] = _own(problem.negated(), line)
    if problem.log_normalizer(*problem.check(*problem.cases(1, seed=0))) is None:
        terms["q2"] = _term("autoregressive-spline", problem, **spline, reads_theta=False)
    return terms


def _own(problem: Problem, line: TermRecipe) -> TermRecipe:
    """On f_plus' half-line where it has one, else on the range of x."""
    if problem.x.dim > 1 or problem.theta is None:
        return line
    try:
        half_line(problem, torch.zeros(1, problem.theta.dim))
    except ValueError:
        return line
    return _term("half-line-spline", problem, bins=32)


def _term(family: str, problem: Problem, **arguments: Any) -> TermRecipe:
    bounded = all(
        variable is None or variable.shown or math.isfinite(variable.high - variable.low)
        for variable in (problem.y, problem.theta)
    )
    return TermRecipe(
        family=family,
        arguments={"hidden": HIDDEN, "activation": "silu", **arguments},
        objective="refine",
        settings={
            "cases": 192,
            "uniform_cases": 64 if bounded else 0,
            "from_proposal": 12,
            "from_reference": 4,
        },
        learning_rate=3e-3,
        annealed=True,
        steps_per_minute=1,
        share=1.0,
    )


def _coordinates(variable: Variable, x: torch.Tensor) -> list[dict[str, Any]]:
    kinds: dict[tuple[float, float], tuple[str, Callable[[Tensor], Tensor]]] = {
        (-math.inf, math.inf): ("line", lambda v: v),
        (0.0, math.inf): ("positive", torch.log),
        (0.0, 1.0): ("probability", torch.logit),
    }
    ends = (variable.low, variable.high)
    if ends not in kinds:
        raise ValueError(
            f"terms: there are usual ones for x on the line, above 0 or within [0, 1], not within "
            f"[{variable.low:g}, {variable.high:g}]; name a family for each proposal"
        )
    kind, onto_line = kinds[ends]
    z = onto_line(x)
    return [
        {"kind": kind, "centre": round(centre, 3), "scale": round(scale, 3)}
        for centre, scale in zip(z.mean(0).tolist(), z.std(0).tolist(), strict=True)
    ]

r"""How good proposals are: at held-out cases during training, and by a long check after it.

A thousand draws cannot show what a hundred thousand do. So `long_check` estimates some held-out
cases with as many draws of each proposal, and evaluates the weights at particles that no proposal
has drawn: are some far above their mean? The result is stored in the card of the proposals, and
sets how many draws the verdict on a later estimate nearby requires.
"""

from __future__ import annotations

__all__ = ["HeldOut", "Quality", "long_check", "write_card"]

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.diagnostics.verdict import LEVELS, MORE_DRAWS, NO_TRUST, RELIABLE
from amci_core.estimation import Estimate, estimate
from amci_core.estimators.draws import COMPONENTS, PROPOSALS, TERMS
from amci_core.evaluation import Evaluation
from amci_core.evaluation.sweep import versions
from amci_core.flows import Proposals, Trainable
from amci_core.flows.mixture import DefensiveComponent, MixtureDensity
from amci_core.io import plain, write_json
from amci_core.models import Problem
from amci_core.proposals import load_proposals
from amci_core.training import clock
from amci_core.training.cost import QUERY
from amci_core.training.particles import MANY, NotReached, smc
from amci_core.training.targets import TARGETS, Target

# What each proposal is for, by the names of an estimate's terms with all of them.
TERM_OF = dict(zip(PROPOSALS, TERMS, strict=True)) | {"q1_complement": "E1_complement"}
# Of the cases and draws on which weights are selected.
SELECTION_SEED = 2_019_06_09
# Where the density is costly qualities are those of so few cases and draws.
LEAST_CASES, LEAST_DRAWS = 8, 32
# Coordinates of points that are computed together: memory.
AT_ONCE = 700_000
# Draws that the defensive component makes cost about their share of all draws where the flow is
# good. The weight is chosen by so many cases and draws.
MIXTURE_WEIGHTS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
WEIGHT_CASES, WEIGHT_DRAWS, WEIGHT_SEED = 64, 512, 2_019_06_11
# About how long the check for a card may take.
CHECK_SECONDS = 600.0
CASES, DRAWS, DRAWS_OF_MANY, LEAST_CHECK_DRAWS, FEWEST_DRAWS = 30, 100_000, 10_000, 2_000, 200
# Further cases, from which particles pass on.
BESIDE, PARTICLES = 226, 128
# Evaluations of the density for each particle, at least.
EVALUATIONS = 20
CHECK_SEED = 2_019_06_12
# From this relative error of a query on the check says what would help.
POOR = 0.03
# With a smaller relative effective sample size a case needs more than a thousand draws.
LEAST_SHARE = 0.02
# A particle is missed where its weight is so many times the mean, which a thousand draws hardly
# meet; a case is not to be trusted where more than this share of its particles is missed.
FAR_ABOVE, LARGEST_MISSED = 100.0, 0.05


@dataclass(frozen=True)
class Quality:
    """The quality of a proposal over held-out cases.

    Arguments:
        divergence: Median over cases of KL(g || q), in nats.
        relative_variance: Median over cases of Var_q[w] / E_q[w]^2 for one draw, w = g / q.
        relative_variance_q95: Its 95th percentile over cases.
        relative_variance_max: Its largest value.
    """

    divergence: float
    relative_variance: float
    relative_variance_q95: float
    relative_variance_max: float


class HeldOut:
    """Fixed cases from p(y) p(theta) and a fixed seed for the draws from the proposal.

    Arguments:
        target: What the proposal is trained towards.
        cases: Number of cases.
        draws: Draws from the proposal, and as many from the defensive density, for each.
        seed: Of cases and draws.
        weight: Mixture weight of the defensive density in the mixture whose quality it is.
    """

    def __init__(
        self,
        target: Target,
        *,
        cases: int = 256,
        draws: int = 256,
        seed: int = SELECTION_SEED,
        weight: float = 0.0,
    ) -> None:
        self.target, self.draws, self.seed, self.weight = target, draws, seed, weight
        generator = torch.Generator().manual_seed(seed)
        self.at = target.problem.check(*target.cases(cases, uniform=0, generator=generator))

    @torch.inference_mode()
    def quality(self, proposal: Trainable) -> Quality:
        """Evaluates a copy of the proposal, in float64 on the CPU.

        A proposal's own draws cannot show what they miss, so half of the points come from the
        target's defensive density. With shares r of q and v of g at the points of both, each
        normalized, w = g / q is v / r in units of its mean: exact where q is.
        """
        double = copy.deepcopy(proposal).to("cpu", torch.float64)
        generator = torch.Generator().manual_seed(self.seed)
        divergences, variances = list[Tensor](), list[Tensor]()
        for y, theta in _blocks(*self.at, 2 * self.draws * self.target.problem.x.dim):
            q, defensive = double(y, theta), self.target.reference(y, theta)
            if self.weight:
                q = MixtureDensity(q, defensive, math.log(self.weight / (1 - self.weight)))
            x = torch.cat(
                [density.draw(self.draws, generator)[0] for density in (q, defensive)], -2
            )
            log_q, log_g = q.log_prob(x), self.target.log_density(x, y, theta)
            log_m = torch.logaddexp(log_q, defensive.log_prob(x))
            divergence, variance = _divergence_and_variance(log_q - log_m, log_g - log_m)
            divergences.append(divergence)
            variances.append(variance)
        median = torch.cat(divergences).nan_to_num(math.inf, posinf=math.inf).median()
        levels = torch.tensor([0.5, 0.95, 1.0], dtype=torch.float64)
        variance = torch.cat(variances).nan_to_num(math.inf, posinf=math.inf)
        return Quality(median.item(), *variance.quantile(levels, interpolation="nearest").tolist())


def _divergence_and_variance(log_q: Tensor, log_g: Tensor) -> tuple[Tensor, Tensor]:
    """KL(g || q) and the relative variance of g / q, by log weights of both (cases, n)."""
    log_r, log_v = log_q.log_softmax(-1), log_g.log_softmax(-1)
    r, v, log_w = log_r.exp(), log_v.exp(), log_v - log_r
    # Where q underflows beside the defensive density, w is too large to count.
    mean = v.where(r > 0, 0.0).sum(-1, keepdim=True)
    variance = (r * (log_w.exp() / mean - 1).square()).where(r > 0, 0.0).sum(-1)
    variance[((log_r == -math.inf) & (v > 0)).any(-1)] = math.inf
    return (v * log_w).where(v > 0, 0.0).sum(-1) - mean[..., 0].log(), variance


def affordable(points: float, cases: int, draws: int) -> dict[str, int]:
    """Cases, and draws of two densities at each, for about so many evaluations of the target."""
    draws = int(min(draws, max(points / (2 * LEAST_CASES), LEAST_DRAWS)))
    return {"cases": int(min(cases, max(points / (2 * draws), LEAST_CASES))), "draws": draws}


def _blocks(
    y: Tensor, theta: Tensor | None, coordinates: int
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The cases a few at a time, with points of so many coordinates each."""
    size = max(1, AT_ONCE // coordinates)
    for i in range(0, len(y), size):
        yield y[i : i + size], None if theta is None else theta[i : i + size]


@torch.inference_mode()
def mixture_weight(
    flow: Trainable, defensive: Trainable, target: Target, *, points: float = math.inf
) -> float:
    """The weight of `MIXTURE_WEIGHTS` at which the variance of the weights is least.

    1 where that of the defensive density alone is less, and 0 where that of the prior's draws is,
    or of those of the density that the problem itself declares.

    For every weight s, E_{q_s}[w^2] = E_m[g^2 / (q_s m)] with q_s = (1 - s) flow + s defensive and
    m the equal mixture of both, from which the draws come. The mean of the logarithm of one plus
    the relative variance, over held-out cases, is minimized: no single case decides.

    Arguments:
        flow: The trained flow.
        defensive: The defensive density.
        target: What both are for.
        points: About how many evaluations of the target there is time for.
    """
    generator = torch.Generator().manual_seed(WEIGHT_SEED)
    cases, draws = affordable(points, WEIGHT_CASES, WEIGHT_DRAWS).values()
    at = target.problem.check(*target.cases(cases, uniform=0, generator=generator))
    prior = DefensiveComponent(target.problem, target.term)
    proposals = [copy.deepcopy(proposal).double() for proposal in (flow, defensive, prior)]
    costs = list[Tensor]()  # log(1 + relative variance) for every weight, (weights, cases)
    for y, theta in _blocks(*at, 2 * draws * target.problem.x.dim):
        densities = [proposal(y, theta) for proposal in proposals]
        x = torch.cat([density.draw(draws, generator)[0] for density in densities[:2]], -2)
        log_flow, log_defensive, log_prior = (density.log_prob(x) for density in densities)
        log_g = target.log_density(x, y, theta)
        log_m = torch.logaddexp(log_flow, log_defensive) - math.log(2)
        mixtures = [
            torch.logaddexp(log_flow + math.log1p(-weight), log_defensive + math.log(weight))
            for weight in MIXTURE_WEIGHTS
        ]
        log_q = torch.stack([*mixtures, log_defensive, log_prior])
        log_square = torch.where(log_g > -math.inf, 2 * log_g - log_q - log_m, -math.inf)
        cost = log_square.logsumexp(-1) - 2 * (log_g - log_m).logsumexp(-1)
        costs.append((cost + math.log(x.shape[-2])).nan_to_num(posinf=700.0))
    best = int(torch.cat(costs, -1).mean(-1).argmin())
    return (*MIXTURE_WEIGHTS, 1.0, 0.0)[best]


def write_card(folder: Path, evaluation: Evaluation, problem: Problem) -> None:
    """Writes `evaluation.json`, and the verdict in `config.json`, of stored proposals.

    The evaluation records the hashes of the weights that it judges, and versions. The verdict is
    that of `long_check`.

    Arguments:
        folder: A folder with proposals.
        evaluation: The result of `amci_core.evaluate` for them.
        problem: The problem.

    Raises:
        ValueError: the folder holds no proposals for that problem, or those of another variant; or
            cases failed.
    """
    if evaluation.failures:
        raise ValueError(
            f"evaluation: expected no failed case, got {len(evaluation.failures)}. Repeat them"
        )
    proposals = load_proposals(problem, variant=evaluation.variant, folder=folder)
    config = proposals.card["configuration"]
    hashes = {name: entry["sha256"] for name, entry in config["proposals"].items()}
    of = {"weights": hashes, "versions": versions()}
    write_json(folder / "evaluation.json", of | plain(evaluation.as_dict()))
    verdict = long_check(problem, proposals, seconds=CHECK_SECONDS)
    write_json(folder / "config.json", {**config, "verdict": verdict})


def long_check(
    problem: Problem,
    proposals: Proposals,
    *,
    cases: int = CASES,
    draws: int | None = None,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Checks proposals at held-out cases, for their card.

    Arguments:
        problem: What they are for.
        proposals: What is checked.
        cases: Number of held-out cases, from p(y) p(theta).
        draws: Draws of each proposal at each; by default 100,000, or 10,000 of more than ten
            coordinates.
        seconds: About how long it may take: with less time there are fewer draws, and fewer cases.

    Returns:
        `draws` of each proposal; the checked `cases`, each with y, theta, the least relative
        effective sample size as `share`, the largest `missed` share of particles, whether
        `particles` reached all terms there, their `level`; and the `text`.
    """
    until = clock.now() + seconds
    generator = torch.Generator().manual_seed(CHECK_SEED)
    y, theta = problem.check(*problem.sample_cases(cases, generator))
    names = tuple(proposals.by_name)
    limit = seconds / (4 * len(names))
    particles = {name: _particles(problem, name, y, theta, generator, limit) for name in names}

    def estimated(i: int, n: int) -> Estimate:
        at = (y[i].numpy() if problem.y else None), (None if theta is None else theta[i].numpy())
        of_each = dict.fromkeys(names, n)
        e = estimate(problem, proposals, *at, draws=of_each, seed=CHECK_SEED + i)
        Target.evaluations += e.draws
        return e

    if draws is None:
        draws = DRAWS if problem.x.dim <= MANY else DRAWS_OF_MANY
        if math.isfinite(seconds):
            per_point = clock.seconds_per_point(lambda n: estimated(0, n).diagnostics)
            points = max(until - clock.now(), 0.0) / per_point
            # Where evaluations are costly there are fewer cases, and at a single one fewer draws.
            least = min(max(points, FEWEST_DRAWS), LEAST_CHECK_DRAWS)
            draws = int(min(max(points / cases, least), draws))
    checked, started = list[dict[str, Any]](), clock.now()
    for i in range(cases):
        # The next case takes as long as those before.
        if checked and clock.now() + (clock.now() - started) / len(checked) > until:
            break
        reached = {name: of_cases[i] for name, of_cases in particles.items() if i in of_cases}
        theta_i = None if theta is None else theta[i]
        e = estimated(i, draws)
        checked.append(_checked(problem, proposals, e, reached, y[i], theta_i, draws))
    check: dict[str, Any] = {"draws": draws, "cases": checked}
    return {**check, "text": in_words(check)}


def _checked(
    problem: Problem,
    proposals: Proposals,
    e: Estimate,
    particles: Mapping[str, Tensor],
    y: Tensor,
    theta: Tensor | None,
    draws: int,
) -> dict[str, Any]:
    """The entry of a case, by its estimate and by particles (n, D) that no proposal has drawn."""
    share, missed = 1.0, 0.0
    for name in proposals.by_name:
        term = e.diagnostics[TERM_OF[name]]
        share = min(share, float(np.fmin(term.ess, term.pooled_ess)) / draws)
        if name not in particles:
            continue
        x = particles[name]
        with torch.inference_mode():
            log_g = TARGETS[name](problem).log_density(x, y, theta)
            log_w = log_g - proposals.at(y, theta)[COMPONENTS.index(name)].log_prob(x)
        log_w = log_w - float(e.terms[TERM_OF[name]].log_value)
        share = min(share, float(torch.exp(math.log(len(x)) - log_w.logsumexp(0))))
        missed = max(missed, float((log_w > math.log(FAR_ABOVE)).double().mean()))
    level = RELIABLE
    if share < LEAST_SHARE or not np.isfinite(e.standard_error):
        level = MORE_DRAWS
    if missed > LARGEST_MISSED:
        level = NO_TRUST
    # Of an f with both signs relative to E|f|: mu may be zero.
    scale = abs(float(e.value))
    if "E1_minus" in e.terms:
        logs = [e.terms[name].log_value for name in ("E1_plus", "E1_minus")]
        scale = float(np.exp(np.logaddexp(*logs) - e.terms["E2"].log_value))
    error = float(e.standard_error) / max(scale, 1e-300) * math.sqrt(e.draws / QUERY)
    return {
        "y": y.tolist() if problem.y else None,
        "theta": None if theta is None else theta.tolist(),
        "error": error if math.isfinite(error) else None,
        "share": share,
        "missed": missed,
        "particles": len(particles) == len(proposals.by_name),
        "level": level,
    }


def _particles(
    problem: Problem,
    name: str,
    y: Tensor,
    theta: Tensor | None,
    generator: torch.Generator,
    seconds: float,
) -> dict[int, Tensor]:
    """Particles (n, D) of the term of a proposal, by the number of their case."""
    target = TARGETS[name](problem)
    points = EVALUATIONS * PARTICLES * (len(y) + BESIDE)
    if math.isfinite(seconds) and points * target.seconds_per_point > seconds:
        return {}
    more_y, more_theta = target.cases(BESIDE, uniform=0, generator=generator)
    all_y, all_theta = torch.cat([y.float(), more_y]), None
    if theta is not None and more_theta is not None:
        all_theta = torch.cat([theta.float(), more_theta])
    try:
        reached, rows = smc(target, all_y, all_theta, PARTICLES, generator, seconds=seconds)
    except NotReached:
        return {}
    of_row = zip(rows.tolist(), reached.x.double(), strict=True)
    return {row: x for row, x in of_row if row < len(y)}


def in_words(check: Mapping[str, Any]) -> str:
    """The check in a sentence or two, with its worst case, and what would help.

    ESS is the effective sample size.

    Example:
        >>> case = {"theta": [1.0], "share": 0.5, "missed": 0.0, "level": 0}
        >>> case |= {"y": None, "error": 0.005, "particles": True}
        >>> for part in in_words({"draws": 1000, "cases": 30 * [case]}).split("; "):
        ...     print(part)
        reliable at all 30 held-out cases: at worst ESS 500 of 1,000 draws, at theta = 1
        relative error of 1,000 draws 0.5 %, at worst 0.5 %
    """
    cases = check["cases"]
    worst = max(cases, key=lambda case: (case["level"], case["missed"], -case["share"]))
    bad = sum(case["level"] > RELIABLE for case in cases)
    if bad:
        verdict = f"{LEVELS[worst['level']]} at {bad} of {len(cases)} held-out cases"
    elif len(cases) == 1:
        verdict = "reliable at the one held-out case"
    else:
        verdict = f"reliable at all {len(cases)} held-out cases"
    verdict += f": at worst ESS {1000 * worst['share']:,.0f} of 1,000 draws"
    if bad and worst["missed"] > 0.01:
        verdict += f", with {worst['missed']:.0%} missed"
    at = [
        f"{name} = {', '.join(f'{value:.3g}' for value in worst[name])}"
        for name in ("y", "theta")
        if worst[name]
    ]
    if at:
        verdict += f", at {', '.join(at)}"
    if len(cases) < CASES:
        verdict += f"; {len(cases)} of {CASES} checked"
    errors = [math.inf if case["error"] is None else case["error"] for case in cases]
    middle, largest = map(_percent, (np.median(errors), max(errors)))
    verdict += f"; relative error of {QUERY:,} draws {middle}, at worst {largest}"
    if not bad and np.median(errors) < POOR:
        return verdict
    if any(case["missed"] > 0.01 or not case["particles"] for case in cases):
        return f"{verdict}. Define sample_defensive or support_plus, or raise minutes"
    return f"{verdict}. Raise minutes"


def _percent(error: float) -> str:
    if not math.isfinite(error):
        return "not known"
    return f"{100 * error:.2g} %" if error >= 1e-4 else "below 0.01 %"

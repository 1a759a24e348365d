r"""What a long run of the problem's own reference says of its truth and its normalizer."""

from __future__ import annotations

__all__ = ["LEAST_DRAWS", "LONG_RUN", "check_by_a_long_run"]

from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.checking.findings import Notes
from amci_core.checking.ranges import Drawn
from amci_core.models import DefensiveDensity, Problem

# Cases, draws of each in all, and at a time.
CASES, DRAWS, CHUNK = 3, 120_000, 10_000
LEAST_DRAWS = CASES * CHUNK
# The share of the time after which no chunk begins.
UNTIL = 0.8
# Effective draws, and the largest share of one of them, with which a mean is nearly normal.
EFFECTIVE, LARGEST = 400.0, 0.02
# Standard errors apart that contradict: about one in 10^8 of normal errors.
APART = 6.0
# Digits that no one asks for: of the truth, and of the constant of a bound.
ROUNDING, DEVIATION = 1e-4, 0.01
# The reference misses f where it is so many times less than the prior on this share of f p(x, y).
FEWER, MISSED = 300.0, 0.01
LONG_RUN = "log_evidence, _log_truth, and whether log_defensive reaches f p(x, y)"


class Weights:
    """Importance weights of a term, (C, n): their mean, its error, and whether that is judged."""

    def __init__(self, log_value: Tensor) -> None:
        self.peak = log_value.amax(-1, keepdim=True).clamp(min=-1e300)
        self.w = (log_value - self.peak).exp()
        total = self.w.sum(-1).clamp(min=1e-300)
        self.effective = total.square() / self.w.square().sum(-1).clamp(min=1e-300)
        judged = (self.effective > EFFECTIVE) & (self.w.amax(-1) < LARGEST * total)
        self.judged = judged.numpy()
        self.mean = self.w.mean(-1)
        self.relative_error = (self.w.std(-1) / self.mean / self.w.shape[-1] ** 0.5).numpy()
        self.log_mean = (self.mean.log() + self.peak[:, 0]).numpy()


def check_by_a_long_run(problem: Problem, drawn: Drawn, notes: Notes) -> None:
    """Notes a truth, a normalizer or a reference that importance sampling contradicts."""
    y = drawn.y[:CASES]
    theta = None if drawn.theta is None else drawn.theta[:CASES]
    terms = ["E1_plus", "E2"] if problem.nonnegative else ["E1_plus", "E1_minus", "E2"]
    broad = DefensiveDensity(problem, y, theta, terms)
    generator = torch.Generator().manual_seed(30)
    parts: list[tuple[Tensor, ...]] = []
    while len(parts) * CHUNK < DRAWS and (not parts or notes.left(UNTIL)):
        x, log_q = broad.draw(CHUNK, generator)
        prior, likelihood = problem.log_prior(x), problem.log_likelihood(x, y[:, None])
        there = (prior > -torch.inf) & (likelihood > -torch.inf)
        log_w = (prior + likelihood - log_q).where(there, -torch.inf)
        notes.finite("log_prior", prior, x)
        notes.finite("log_likelihood", likelihood.where(prior > -torch.inf, 0.0), x)
        if notes.broken(LONG_RUN, "log_prior", "log_likelihood"):
            return
        f = torch.zeros_like(log_w)
        if not notes.failed("f"):
            f = problem.f(x, None if theta is None else theta[:, None]).where(there, 0.0)
            _check_f(problem, f, x, notes)
        parts.append((f, log_w, problem.log_defensive(x, y, theta), prior))
    f, log_w, reference, prior = (torch.cat(each, -1) for each in zip(*parts, strict=True))
    E2 = Weights(log_w)
    reaching = ("f", "theta", "support", "support_plus")
    if not notes.broken("log_defensive: whether it reaches f p(x, y)", *reaching):
        plus = Weights(f.clamp(min=0).log() + log_w)
        _check_reaching(plus, reference, prior, f, theta, notes)
    _check_normalizer(problem, y, theta, E2, f.shape[-1], notes)
    answers = _Answers(y, theta, f, log_w)
    others = [each for each in notes.failed() if each != "log_evidence"]
    if problem.knows_truth and not (
        others and notes.broken("_log_truth: whether it is right", *others)
    ):
        truth = notes.value("_log_truth", problem.truth, y, theta)
        answers.compare("_log_truth", "mu", truth, f, notes)
    if (
        problem.knows_bound
        and not notes.broken("_log_mean_absolute_deviation: whether it is right")
        and notes.left()
    ):
        given = notes.value(
            "_log_mean_absolute_deviation", problem.mean_absolute_deviation, y, theta
        )
        away = (f - answers.mu).abs()
        answers.compare(
            "_log_mean_absolute_deviation", "E|f - mu|", given, away, notes, accuracy=DEVIATION
        )


def _check_f(problem: Problem, f: Tensor, x: Tensor, notes: Notes) -> None:
    """Notes an f that is no number at draws of the reference, or has the wrong sign."""
    if notes.finite("f", f, x, density=False) and problem.nonnegative and (f < 0).any():
        notes.error(
            "f",
            f"is negative, {float(f.min()):.3g}, at draws of the reference, where nonnegative "
            "is True; mend f or declare nonnegative = False",
        )


def _check_reaching(
    plus: Weights, reference: Tensor, prior: Tensor, f: Tensor, theta: Tensor | None, notes: Notes
) -> None:
    nowhere = ~(f > 0).any(-1)
    if nowhere.all():
        n = f.shape[-1]
        notes.skip(
            f"f: it is zero at all {n:,} draws of the prior and the reference; where it is "
            "positive, no draw can tell"
        )
        return
    total = plus.w.sum(-1)
    for case in range(len(f)):
        if not plus.judged[case]:
            notes.skip("sample_defensive: whether it reaches f p(x, y) in every case")
            continue
        small = reference[case] < prior[case] - np.log(FEWER)
        missed = float((plus.w[case] * small).sum() / total[case])
        none = float((plus.w[case] * (reference[case] == -torch.inf)).sum() / total[case])
        if missed > MISSED:
            at = "" if theta is None else f" at theta = {_numbers(theta[case])}"
            how = "zero" if none > MISSED else f"{FEWER:g} times less than the prior or more"
            notes.error(
                "log_defensive",
                f"is {how} where {max(none, 0) if none > MISSED else missed:.1%} of f p(x, y) "
                f"lies{at}; give the reference a part there",
            )
            return


def _check_normalizer(
    problem: Problem, y: Tensor, theta: Tensor | None, E2: Weights, n: int, notes: Notes
) -> None:
    known = notes.value("log_evidence", problem.log_evidence, y, theta)
    if known is None:
        return
    if np.shape(known) != (len(y),):
        notes.error(
            "log_evidence",
            f"expected an array of shape ({len(y)},), one for each case, got "
            f"{np.shape(known)}; or return None where E2 is not known",
        )
        return
    apart = np.abs(np.asarray(known, dtype=np.float64) - E2.log_mean)
    wrong = E2.judged & ~(apart <= APART * E2.relative_error + ROUNDING)
    if wrong.any():
        i = int(wrong.argmax())
        at = "without y" if problem.y is None else f"at y = {_numbers(y[i])}"
        notes.error(
            "log_evidence",
            f"gives {float(np.asarray(known)[i]):.5g} {at}, where {n:,} draws give "
            f"{E2.log_mean[i]:.5g} ± {E2.relative_error[i]:.2g}; mend it, or return None where "
            "E2 is not known",
        )
    elif not E2.judged.any():
        notes.skip("log_evidence: whether it is right, for too few effective draws")


class _Answers:
    """What the draws say of means under p(x | y), to hold a problem's answers against."""

    def __init__(self, y: Tensor, theta: Tensor | None, f: Tensor, log_w: Tensor) -> None:
        self.y, self.theta, self.f = y, theta, f
        E2, size = Weights(log_w), Weights(f.abs().log() + log_w)
        self.judged = E2.judged & size.judged
        self.share = E2.w / E2.w.sum(-1, keepdim=True)
        self.mu = self.mean(f)

    def mean(self, values: Tensor) -> Tensor:
        """Their mean over the draws (C, n), (C, 1)."""
        return (self.share * values).nansum(-1, keepdim=True)

    def compare(
        self,
        method: str,
        symbol: str,
        found: Any,
        values: Tensor,
        notes: Notes,
        *,
        accuracy: float = ROUNDING,
    ) -> None:
        """Notes an answer that the mean of values (C, n) contradicts.

        Arguments:
            method: Who gave it.
            symbol: What it is.
            found: The answer, (C,); None where there is none.
            values: What it is the mean of.
            notes: Where it is noted.
            accuracy: Share of it by which it may be off.
        """
        if found is None:
            return
        cases = len(self.y)
        if np.shape(found) != (cases,):
            notes.error(
                method,
                f"expected arrays of shape ({cases},), one number for each case, got "
                f"{np.shape(found)}",
            )
            return
        mean = self.mean(values)
        error = (self.share * (values - mean)).square().nansum(-1).sqrt().numpy()
        said = mean[:, 0].numpy()
        apart = np.abs(np.asarray(found) - said)
        wrong = self.judged & ~(apart <= APART * error + accuracy * np.abs(said))
        if wrong.any():
            i = int(wrong.argmax())
            case = {"y": self.y[i], "theta": None if self.theta is None else self.theta[i]}
            given = [f"{k} = {_numbers(v)}" for k, v in case.items() if v is not None and len(v)]
            notes.error(
                method,
                f"says {symbol} = {float(found[i]):.5g}{' at ' * bool(given)}{', '.join(given)}, "
                f"where {values.shape[-1]:,} draws say {said[i]:.5g} ± {error[i]:.2g}; mend it, "
                "or f",
            )
        elif not self.judged.any():
            notes.skip(f"{method}: whether it is right, for too few effective draws")


def _numbers(value: Tensor) -> str:
    said = ", ".join(f"{each:.4g}" for each in value[:5].tolist())
    return said if len(value) == 1 else f"({said}{', ...' if len(value) > 5 else ''})"

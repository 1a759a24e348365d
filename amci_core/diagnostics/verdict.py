r"""Whether an estimate can be believed: what contradicts it, then three questions to the draws.

`judge` collects the reasons against an estimate; the most serious one is its level.

- Contradictions. Densities must fit their draws, and a draw must reach every term. Draws with one
  and the same f say nothing of a region that they missed.
- Do the draws agree? AMCI with control variates uses all draws of all components. An estimate
  agrees if it lies within 2.5 standard errors of the difference from it.
- Is it determined? The effective number of AMCI's squared residuals with control variates,
  N = (sum z^2)^2 / sum z^4, says how many draws make up its standard error. With few, the next
  draw can change both. The same holds for the estimate's own residuals.
- Could they know? The draws of the defensive density, which no training has shaped, must reach
  every term by themselves.

A long check of the proposals after their training (`requirements_near`) sets the needed N, and
can answer the last question. Tails of weights, effective sample sizes and largest weights are
diagnostics beside the verdict, not judges.

Warning:
    A sample cannot reveal a region that no component visits.
"""

from __future__ import annotations

__all__ = ["LEVELS", "Requirements", "Verdict", "judge", "requirements_near"]

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.control_variates import Regression
from amci_core.estimators.draws import COMPLEMENT, COMPONENTS, DEFENSIVE, TERMS, Array, log_sum_exp
from amci_core.estimators.uncertainty import Errors, centred

LEVELS = ("reliable", "use more draws", "do not trust")
RELIABLE, MORE_DRAWS, NO_TRUST = range(3)

# The numbers below were chosen on the grid of benchmarks/verdict.py, and measured there with
# another seed.
# From fewer draws nothing is known but what has no error.
LEAST_JUDGED = 64
# Estimates agree within so many standard errors of their difference, and contradict one another
# beyond so many.
AGREE, CONTRADICT = 2.5, 4.0
# The needed N, and ESS of the defensive density for each term: of unknown proposals,
# of those that a long check found all but exact at the nearest case, of those that it found good
# at every case, of other checked ones, and of those that it did not call reliable at some case.
# The last miss a few per cent of a term, which 70 effective draws hardly do.
UNKNOWN, EXACT, GOOD, INEXACT, POOR = (28, 3), (2, 0), (28, 0), (28, 10), (28, 70)
# The relative ESS of every term that these need in the long check, with no particle missed, and
# how many cases are every case.
ALL_BUT_EXACT, LEAST_GOOD, LEAST_CASES = 0.8, 0.4, 20
# The share of N that an estimate's own residuals need, and the least.
OWN, LEAST_OWN = 1 / 5, 1.5
# The largest share of a squared residual in their sum, without draws of a defensive density: heavy
# tails can pass by N alone.
LARGEST_RESIDUAL = 1 / 20
# Nats of Bernstein's bound beyond which densities do not integrate to one number: right ones pass
# it in one of 4,000 estimates at most.
UNNORMALIZED = 9.0
# A side of f with a smaller share of E1_plus + E1_minus does not matter.
LEAST_SIDE = 0.01


class Requirements(NamedTuple):
    """What is known of proposals before a draw, for a batch (*).

    Arguments:
        needed: The needed N, (*).
        defensive: The needed ESS of the defensive density for each term, (*).
        against: Sentences against every estimate of the batch.
        r_eff: Effective number of independent draws over their number.
    """

    needed: Array | float = UNKNOWN[0]
    defensive: Array | float = UNKNOWN[1]
    against: tuple[str, ...] = ()
    r_eff: float = 1.0


NOTHING_KNOWN = Requirements()


def requirements_near(check: Mapping[str, Any], y: Array, theta: Array | None) -> Requirements:
    """What a long check of proposals after their training says of estimates at y and theta.

    A case takes over what was measured at the nearest checked case, with y and theta in units of
    their spread over the checked ones. The check does not answer beyond the checked cases by more
    than one spread in any coordinate.

    Arguments:
        check: The check, see `amci_core.training.quality.long_check`.
        y: (*, D_y), no columns if there is no y.
        theta: (*, D_theta), or None.
    """
    cases = check["cases"]
    checked = np.array([[*(case["y"] or []), *(case["theta"] or [])] for case in cases], float)
    at = y if theta is None else np.concatenate([y, theta], -1)
    lowest, highest = checked.min(0), checked.max(0)
    least = np.maximum(1e-12 * np.maximum(-lowest, highest), 1e-100)
    spread = np.maximum(checked.std(0), least)
    nearest = np.square((at[..., None, :] - checked) / spread).sum(-1).argmin(-1)
    beyond = ((at < lowest - spread) | (at > highest + spread)).any(-1)[..., None]
    # Only particles of a term show what no proposal draws: its relative ESS does not.
    sure = [case["missed"] == 0 and case.get("particles", True) for case in cases]
    relative_ess = np.where(sure, [case["share"] for case in cases], 0.0)
    if any(case["level"] != RELIABLE for case in cases):
        others = POOR
    elif len(cases) >= LEAST_CASES and relative_ess.min() > LEAST_GOOD:
        others = GOOD
    else:
        others = INEXACT
    exact = relative_ess[nearest, None] > ALL_BUT_EXACT
    needed = np.select([beyond, exact], [UNKNOWN, EXACT], others)
    return Requirements(needed[..., 0], needed[..., 1])


@dataclass(frozen=True)
class Verdict:
    """Whether estimates can be believed, for a batch (*); index it for a single one.

    Arguments:
        codes: Indices of `LEVELS`, (*).
        why: Reasons against each, most serious first: a tuple of sentences, (*).
        determined_by: The effective number of the estimate's own squared residuals, (*); infinite
            without error, NaN if no draw met a term, or there are none.
        needed: What that number must reach, (*).
    """

    codes: NDArray[np.int64]
    why: NDArray[np.object_]
    determined_by: Array
    needed: Array

    @property
    def level(self) -> NDArray[np.str_]:
        """One of `LEVELS` for each of the batch, (*)."""
        return np.array(LEVELS)[self.codes]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons against a single estimate, or a batch of one, most serious first.

        Raises:
            ValueError: there is more than one.
        """
        if self.codes.size != 1:
            raise ValueError(
                f"verdict: expected a single case, got batch shape {self.codes.shape}. Use why"
            )
        return tuple(self.why.item())

    @property
    def text(self) -> str:
        """The level of a single estimate, or a batch of one, and the first reason for it.

        Raises:
            ValueError: there is more than one.
        """
        reasons, code = self.reasons, self.codes.item()
        if code != RELIABLE:
            return f"{LEVELS[code]}: {reasons[0]}"
        N, needed = self.determined_by.item(), self.needed.item()
        grounds = f"about {N:,.0f} draws determine its error, {needed:.2g} are needed"
        if np.isinf(N):
            grounds = "it has no error"
        elif needed not in (UNKNOWN[0], OWN * UNKNOWN[0]):
            grounds = "the long check covers this case, and the draws agree with it"
        return "; ".join([f"{LEVELS[code]}: {grounds}", *reasons])

    def as_dict(self) -> dict[str, Any]:
        """Level, text and reasons of a single estimate, for JSON."""
        return {name: getattr(self, name) for name in ("level", "text", "reasons")}

    def __str__(self) -> str:
        if self.codes.size == 1:
            further = self.reasons[1:] if self.codes.item() else ()
            return "\n  ".join((self.text, *further))
        counts = np.bincount(self.codes.ravel(), minlength=len(LEVELS))
        levels = [f"{n:,} {level}" for n, level in zip(counts, LEVELS, strict=True) if n]
        return f"{', '.join(levels) or 'none'}, of {self.codes.size:,} estimates"

    __repr__ = __str__

    def __getitem__(self, index: Any) -> Verdict:
        place = (*index, ...) if isinstance(index, tuple) else (index, ...)
        return Verdict(*(getattr(self, field.name)[place] for field in fields(self)))


class _Reason(NamedTuple):
    """A reason against estimates (*), which caps their level.

    Arguments:
        level: The level, as an index of `LEVELS`.
        holds: Whether it holds, (*).
        words: A sentence, with places for a number and for what it had to reach.
        number: The number, (*).
        needed: What it had to reach, (*).
    """

    level: int
    holds: Any
    words: str
    number: Any = 0.0
    needed: Any = 0.0


def judge(
    control: Regression, errors: Errors, requirements: Requirements = NOTHING_KNOWN
) -> Verdict:
    """Whether an estimate, and its standard error, can be believed.

    Arguments:
        control: AMCI with control variates on all draws.
        errors: What each of these draws adds to the error of the estimate.
        requirements: What a verdict requires near each case.

    Returns:
        The `Verdict`, (*).
    """
    N = requirements.r_eff * control.determined_by
    codes, why = np.zeros(N.shape, dtype=np.int64), np.empty(N.shape, dtype=object)
    why.fill(())
    for level, holds, words, *numbers in _reasons(control, errors, requirements):
        holds = np.broadcast_to(holds, N.shape)
        codes = np.where(holds, np.maximum(codes, level), codes)
        for place in map(tuple, np.argwhere(holds)):
            there = (float(np.broadcast_to(number, N.shape)[place]) for number in numbers)
            why[place] += (words.format(*there),)
    own, needed = requirements.r_eff * errors.determined_by, np.asarray(requirements.needed)
    needed = np.where(own == N, needed, np.maximum(OWN * needed, LEAST_OWN))
    return Verdict(codes, why, np.where(np.isnan(N), N, own), needed)


def _reasons(control: Regression, errors: Errors, requirements: Requirements) -> Iterator[_Reason]:
    """The reasons against estimates, contradictions first."""
    r_eff, needed = requirements.r_eff, np.asarray(requirements.needed)
    N, own = r_eff * control.determined_by, r_eff * errors.determined_by
    for text in requirements.against:
        yield _Reason(NO_TRUST, True, text)
    for name, nats in _misfits(control).items():
        words = (
            f"the density of {name} does not fit its draws: its integral is not one, or they were "
            "drawn from another"
        )
        yield _Reason(NO_TRUST, nats > UNNORMALIZED, words)
    yield _Reason(NO_TRUST, np.isnan(N), "no draw reached a term")
    # Do the draws agree?
    distance = np.sqrt(r_eff) * _distance(control.errors, errors)
    words = "all draws together contradict it, by {:.2g} standard errors of the difference"
    yield _Reason(NO_TRUST, distance > CONTRADICT, words, distance)
    yield _Reason(MORE_DRAWS, (distance > AGREE) & (distance <= CONTRADICT), words, distance)
    # Is it determined?
    words = (
        "all n draws for E1 have the same f: a region that they missed, of mass up to about "
        "3 / n, does not show"
    )
    yield _Reason(MORE_DRAWS, errors.silent, words)
    few = (control.draws.n < LEAST_JUDGED) & (N < np.inf)
    yield _Reason(MORE_DRAWS, few, f"from fewer than {LEAST_JUDGED} draws little can be told")
    words = "only about {:.1f} draws determine its error, {:g} are needed"
    yield _Reason(MORE_DRAWS, N < needed, words, N, needed)
    words = "only about {:.1f} of its own draws determine its error, {:g} are needed"
    least = np.maximum(OWN * needed, LEAST_OWN)
    yield _Reason(MORE_DRAWS, own < least, words, own, least)
    words = "only about {:.1f} draws carry it, {:g} are needed"
    yield _Reason(MORE_DRAWS, r_eff * errors.carried_by < least, words, errors.carried_by, least)
    # Could they know?
    if control.draws.count(DEFENSIVE):
        for name, ess in _defensive_ess(control).items():
            words = (
                f"the ESS of the defensive density for {name} is {{:.1f}}, {{:g}} is needed: more "
                "draws of it, or one that is nearer or broader, can tell"
            )
            least = np.asarray(requirements.defensive)
            yield _Reason(MORE_DRAWS, r_eff * ess < least, words, ess, least)
    else:
        squares = np.square(control.errors.z)
        with np.errstate(invalid="ignore"):
            largest = squares.max(axis=-1) / squares.sum(axis=-1)
        rules = (N < np.inf) & (largest > LARGEST_RESIDUAL) & (needed > EXACT[0])
        yield _Reason(MORE_DRAWS, rules, "one draw makes {:.1%} of its squared error", largest)
        words = "without draws of a defensive density nothing can tell what all proposals miss"
        yield _Reason(RELIABLE, True, words)
    unbounded = np.isinf(errors.uncertainty.standard_error)
    yield _Reason(MORE_DRAWS, unbounded, "its standard error is infinite")


def _distance(control: Errors, errors: Errors) -> Array:
    """How many standard errors of their difference two estimates lie apart, (*)."""
    log_unit = np.maximum(control.log_unit, errors.log_unit)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        a, b = (np.exp(of.log_unit - log_unit) for of in (control, errors))
        between = np.abs(a * control.value - b * errors.value)
        z = centred(a[..., None] * control.z - b[..., None] * errors.z, control.counts)
        error = np.sqrt(control.variance_of(z)) + control.rounding
        return np.where(between == 0, 0.0, between / error)


def _defensive_ess(control: Regression) -> dict[str, Array]:
    """ESS of the defensive density for each term, (*), by the term's name.

    They are weighted as draws of the mixture of all components: where the proposals draw as well,
    their part in the term is known.
    """
    draws, ess = control.draws, {}
    part = draws.stretch(DEFENSIVE)
    with np.errstate(divide="ignore"):
        log_w = draws.log_weight(DEFENSIVE) + np.log(control.ratios[DEFENSIVE][..., part])

    def effective(log_factor: Array) -> Array:
        log_t = log_w + log_factor
        with np.errstate(invalid="ignore"):
            return np.asarray(
                np.nan_to_num(np.exp(2 * log_sum_exp(log_t) - log_sum_exp(2 * log_t)))
            )

    if draws.count(COMPLEMENT) and draws.f_max is not None:
        ess["E1_complement"] = effective(draws.complement().log_factor(0, part))
    for t, name in enumerate(TERMS):
        if t not in control.fits:
            continue
        ess_t = effective(draws.log_factor(t, part))
        if draws.signed and t < 2:
            log_E1 = control.combined.log_terms[..., 0, :2]
            part_of_E1 = np.exp(log_E1[..., t] - np.logaddexp(log_E1[..., 0], log_E1[..., 1]))
            ess_t = np.where(part_of_E1 > LEAST_SIDE, ess_t, np.inf)
        ess["E1" if t == 0 and not draws.signed else name] = ess_t
    return ess


def _misfits(control: Regression) -> dict[str, Array]:
    """How far the draws contradict each component's density, in nats, (*), by its name.

    If all densities are right, the sum of a_j Q_j over all draws has mean n_j, and each term of it
    lies between 0 and 1. Its variance within the draws of each component comes from all draws.

    References:
        Bernstein's inequality: Pr(|S| >= t) <= 2 exp(-t^2 / 2 / (V + t / 3)).
    """
    draws, nats = control.draws, {}
    for j, Q_j in control.ratios.items():
        aQ = draws.count(j) / draws.n * Q_j
        t = np.abs(draws.count(j) - aQ.sum(axis=-1))
        V = np.vecdot(aQ, aQ) - sum(
            draws.count(k) * np.square(np.vecdot(aQ, Q_k) / draws.n)
            for k, Q_k in control.ratios.items()
        )
        # Beyond these are the proposals of other problems, see `estimate_several`.
        name = COMPONENTS[j] if j < len(COMPONENTS) else "another problem's proposal"
        nats[name] = np.square(t) / np.maximum(2 * (np.maximum(V, 0) + t / 3), 1e-300)
    return nats

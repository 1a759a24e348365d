r"""Whether an estimate can be believed: three questions to the draws.

1. Is it determined? AMCI with control variates uses all draws of all components. The effective
   number of its squared residuals, N = (sum z^2)^2 / sum z^4, says how many draws make up its
   standard error. With few, the next draw can change both. So it can where the estimate's own
   residuals have hardly any.
2. Do the draws agree? An estimate agrees where it lies within 2.5 standard errors of the
   difference from AMCI with control variates.
3. Could they know? The draws of the defensive density, which no proposal has made, must reach
   every term by themselves. A long check of the proposals after their training can answer in their
   place; it also sets the N that is asked.

Tails of weights, effective sample sizes and largest weights are diagnostics beside it, not judges.

Warning:
    Mass that no draw of any component came near is not seen.
"""

from __future__ import annotations

__all__ = ["LEVELS", "Evidence", "Verdict", "judge"]

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from amci_core.estimators.control_variates import Regression
from amci_core.estimators.draws import COMPONENTS, DEFENSIVE, TERMS, Array
from amci_core.estimators.uncertainty import Errors, bessel, centred

LEVELS = ("reliable", "use more draws", "do not trust")
RELIABLE, MORE_DRAWS, NO_TRUST = range(3)

# Chosen on the grid of benchmarks/verdict.py, and measured there with another seed. The N, and the
# effective draws of the defensive density for each term, that are asked of unknown proposals, of
# ones that a long check found all but exact, and of other checked ones.
UNKNOWN, EXACT, INEXACT = (28.0, 3.0), (2.0, 0.0), (28.0, 10.0)
# The share of N that is asked of an estimate's own residuals, and the least.
OWN, LEAST_OWN = 1 / 5, 1.5
# The largest share of a squared residual in their sum, without draws of a defensive density: heavy
# tails can pass by N alone.
LARGEST = 1 / 20
# Estimates agree within so many standard errors of their difference, and contradict one another
# beyond so many.
AGREE, CONTRADICT = 2.5, 4.0
# Nats of Bernstein's bound beyond which densities do not integrate to one number.
UNNORMALIZED = 6.0
# From fewer draws nothing is known but what has no error.
LEAST_DRAWS = 64
# A side of f with a smaller share of E1_plus + E1_minus does not matter.
LEAST_SIDE = 0.01


class Evidence(NamedTuple):
    """What is known of proposals before a draw, for a batch (*).

    Arguments:
        needed: The N that is asked, (*).
        defensive: The effective draws of the defensive density that are asked for each term, (*).
        against: Sentences against every estimate of the batch.
        r_eff: Effective number of independent draws over their number.
    """

    needed: Array | float = UNKNOWN[0]
    defensive: Array | float = UNKNOWN[1]
    against: tuple[str, ...] = ()
    r_eff: float = 1.0


NOTHING_KNOWN = Evidence()


@dataclass(frozen=True)
class Verdict:
    """Whether estimates can be believed, for a batch (*); index it for a single one.

    Arguments:
        codes: Indices of `LEVELS`, (*).
        why: Reasons against each, most serious first: a tuple of sentences, (*).
        determined_by: The effective number of squared residuals, (*); infinite where there is no
            error, NaN where no draw met a term.
    """

    codes: NDArray[np.int64]
    why: NDArray[np.object_]
    determined_by: Array

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
                f"verdict: index it for a single case, it has batch {self.codes.shape}"
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
        n = self.determined_by.item()
        by = f"about {n:,.0f} draws determine its error" if np.isfinite(n) else "it has no error"
        return "; ".join([f"{LEVELS[code]}: {by}", *reasons])

    def __str__(self) -> str:
        if self.codes.size == 1:
            further = self.reasons[1:] if self.codes.item() else ()
            return "\n  ".join((self.text, *further))
        counts = np.bincount(self.codes.ravel(), minlength=len(LEVELS))
        said = [f"{n:,} {level}" for n, level in zip(counts, LEVELS, strict=True) if n]
        return f"{', '.join(said) or 'none'}, of {self.codes.size:,} estimates"

    def __getitem__(self, index: Any) -> Verdict:
        place = (*index, ...) if isinstance(index, tuple) else (index, ...)
        return Verdict(*(getattr(self, each.name)[place] for each in fields(self)))


def judge(control: Regression, found: Errors, evidence: Evidence = NOTHING_KNOWN) -> Verdict:
    """Whether an estimate, and its standard error, can be believed.

    Arguments:
        control: AMCI with control variates on all draws.
        found: What each of these draws adds to the error of the estimate.
        evidence: What is known of the proposals beforehand.
    """
    determined_by = evidence.r_eff * control.determined_by
    distance = np.sqrt(evidence.r_eff) * _distance(control.errors, found)
    unseen, largest = not control.draws.count(DEFENSIVE), control.errors.largest_share
    own = evidence.r_eff * found.determined_by
    rules: Sequence[tuple[int, Any, str, Any]] = [
        *((NO_TRUST, True, text, 0.0) for text in evidence.against),
        *(
            (NO_TRUST, nats > UNNORMALIZED, f"the density of {name} does not fit its draws: its "
             "integral is not one, or they were drawn from another", 0.0)
            for name, nats in _misfits(control).items()
        ),
        (NO_TRUST, np.isnan(determined_by), "no draw reached a term", 0.0),
        *(
            (level, (distance > low) & (distance <= high),
             "all draws together disagree, by {:.2g} standard errors of the difference", distance)
            for level, low, high in (
                (NO_TRUST, CONTRADICT, np.inf), (MORE_DRAWS, AGREE, CONTRADICT)
            )
        ),
        (MORE_DRAWS, (control.draws.n < LEAST_DRAWS) & (determined_by < np.inf),
         f"from fewer than {LEAST_DRAWS} draws little can be told", 0.0),
        (MORE_DRAWS, determined_by < evidence.needed,
         "about {:.0f} draws determine its error, too few", determined_by),
        (MORE_DRAWS, own < np.maximum(OWN * np.asarray(evidence.needed), LEAST_OWN),
         "about {:.0f} of its own draws determine its error, too few", own),
        (MORE_DRAWS, unseen & (largest > LARGEST) & (np.asarray(evidence.needed) > EXACT[0]),
         "one draw makes {:.1%} of its squared error", largest),
        *(
            (MORE_DRAWS, evidence.r_eff * ess < evidence.defensive,
             f"the defensive density has {{:.1f}} effective draws for {name}: it is too far or "
             "too narrow to tell", ess)
            for name, ess in _defensive(control).items()
        ),
        (RELIABLE, unseen, "without draws of a defensive density nothing can tell what all "
         "proposals miss", 0.0),
    ]  # fmt: skip
    shape = determined_by.shape
    codes, why = np.zeros(shape, dtype=np.int64), np.empty(shape, dtype=object)
    why.fill(())
    # An average of one value is that value.
    f = control.draws.f
    exact = (f == f[..., :1]).all(axis=-1) & (f[..., 0] != 0) & (own == np.inf)
    for level, holds, words, number in rules:
        holds = np.broadcast_to(holds, shape) & ~(exact & (level == MORE_DRAWS))
        number = np.broadcast_to(number, shape)
        codes = np.where(holds, np.maximum(codes, level), codes)
        for place in map(tuple, np.argwhere(holds)):
            why[place] += (words.format(float(number[place])),)
    return Verdict(codes, why, np.where(exact, np.inf, determined_by))


def _distance(control: Errors, found: Errors) -> Array:
    """How many standard errors of their difference two estimates lie apart, (*)."""
    log_unit = np.where(found.value == 0, control.log_unit, found.log_unit)
    log_unit = np.maximum(log_unit, control.log_unit)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        a, b = (np.exp(each.log_unit - log_unit) for each in (control, found))
        between = np.abs(a * control.value - b * found.value)
        z = a[..., None] * control.of_mu - b[..., None] * found.of_mu
        z = centred(z, control.counts)
        error = np.sqrt(np.vecdot(z * bessel(control.counts), z)) + control.rounding
        return np.where(between == 0, 0.0, between / error)


def _defensive(control: Regression) -> dict[str, Array]:
    """Effective draws of the defensive density for each term, (*), by the term's name.

    They are weighted as draws of the mixture of all components: where the proposals draw as well,
    their part in the term is known.
    """
    draws, found = control.draws, {}
    if not draws.count(DEFENSIVE):
        return {}
    part = draws.stretch(DEFENSIVE)
    with np.errstate(divide="ignore"):
        log_w = draws.log_weight(DEFENSIVE) + np.log(control.ratios[DEFENSIVE][..., part])
    for t, name in enumerate(TERMS):
        if t not in control.fits:
            continue
        log_t = log_w + draws.log_factor(t, part)
        with np.errstate(invalid="ignore"):
            ess = np.exp(2 * logsumexp(log_t, axis=-1) - logsumexp(2 * log_t, axis=-1))
        ess = np.nan_to_num(ess)
        if draws.signed and t < 2:
            sides = control.combined.log_terms[..., 0, :2]
            share = np.exp(sides[..., t] - np.logaddexp(sides[..., 0], sides[..., 1]))
            ess = np.where(share > LEAST_SIDE, ess, np.inf)
        found["E1" if t == 0 and not draws.signed else name] = ess
    return found


def _misfits(control: Regression) -> dict[str, Array]:
    """How far the draws contradict each component's density, in nats, (*), by its name.

    If all densities are right, the sum of a_j Q_j over all draws has mean n_j, and each term of it
    lies between 0 and 1. Its variance within the draws of each component comes from all draws.

    References:
        Bernstein's inequality: Pr(|S| >= t) <= 2 exp(-t^2 / 2 / (V + t / 3)).
    """
    draws, found = control.draws, {}
    for j, Q in control.ratios.items():
        share = draws.count(j) / draws.n * Q
        t = np.abs(draws.count(j) - share.sum(axis=-1))
        V = np.vecdot(share, share) - sum(
            draws.count(k) * np.square(np.vecdot(share, of_k) / draws.n)
            for k, of_k in control.ratios.items()
        )
        found[COMPONENTS[j]] = np.square(t) / np.maximum(2 * (np.maximum(V, 0) + t / 3), 1e-300)
    return found

r"""Whether an estimate can be believed: a level, and reasons in words."""

from __future__ import annotations

__all__ = ["LEVELS", "Verdict", "judge"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amci_core.diagnostics.pareto import LARGEST_K, LEAST_DRAWS, pareto_fit
from amci_core.diagnostics.term import TermDiagnostics
from amci_core.estimators.draws import Array

LEVELS = ("reliable", "use more draws", "do not trust")
RELIABLE, MORE_DRAWS, NO_TRUST = range(3)

# benchmarks/reliability.py tunes these on the shipped problems with trained, early and spoilt
# proposals, and reports them on other problems.
# k-hat passes this many of its standard errors below the threshold, and is too large as many above
# the largest threshold.
K_ERRORS = 1.2
# k-hat does not matter where own weights make this share of the draws effective, or where the
# draws of other components confirm this share of the effective draws.
NEARLY_ALL, CONFIRMED = 0.98, 0.7
# With fewer effective draws a term's mean is not yet nearly normal.
LEAST_EFFECTIVE = 20.0
# The largest missed mass, in standard errors of the term, that leaves intervals as they are.
MISSED_ERRORS = 0.3
# A proposal misses its term where more of it than this share is missed, and its own draws show
# less than half of that or are worth less than one.
MISSED_SHARE = 0.05
# With a larger standard error than this share of the size of f, the estimate is of no use.
LARGEST_RELATIVE_ERROR = 0.5


class Finding(NamedTuple):
    """A reason against an estimate, for a batch (*).

    Arguments:
        level: The level that it leads to, an index of `LEVELS`.
        holds: Whether it holds, (*).
        words: A sentence, with the names of numbers in braces.
        numbers: These numbers, each (*).
    """

    level: int
    holds: NDArray[np.bool_]
    words: str
    numbers: Mapping[str, Array]


@dataclass(frozen=True)
class Verdict:
    """Whether estimates can be believed, for a batch (*); index it for a single one.

    Arguments:
        codes: Indices of `LEVELS`, (*).
        why: Reasons against each, most serious first: a tuple of sentences, (*).
        effective_draws: The smallest effective sample size of a term, in draws, (*).
        effective_share: Its smallest share of the draws, (*).
    """

    codes: NDArray[np.int64]
    why: NDArray[np.object_]
    effective_draws: Array
    effective_share: Array

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
        """The level of a single estimate, or a batch of one, and the first reason against it,
        such as "do not trust E1: ...".

        Raises:
            ValueError: there is more than one.
        """
        reasons, code = self.reasons, self.codes.item()
        if code == NO_TRUST:
            return f"{LEVELS[code]} {reasons[0]}"
        if code == MORE_DRAWS:
            return f"{LEVELS[code]}: {reasons[0]}"
        effective = self.effective_draws.item()
        amount = f"{effective:,.0f}" if effective >= 100 else f"{effective:.3g}"
        return (
            f"{LEVELS[code]}: every term has an effective sample size of at least {amount}, "
            f"{self.effective_share.item():.1%} of its draws"
        )

    def __str__(self) -> str:
        if self.codes.size == 1:
            return "\n  ".join((self.text, *self.reasons[1:]))
        counts = np.bincount(self.codes.ravel(), minlength=len(LEVELS))
        said = [f"{n:,} {level}" for n, level in zip(counts, LEVELS, strict=True) if n]
        return f"{', '.join(said) or 'none'}, of {self.codes.size:,} estimates"

    def __getitem__(self, index: Any) -> Verdict:
        place = (*index, ...) if isinstance(index, tuple) else (index, ...)
        return Verdict(*(getattr(self, each.name)[place] for each in fields(self)))


def judge(
    diagnostics: Mapping[str, TermDiagnostics],
    relative_error: Array | None = None,
    more: Sequence[Finding] = (),
) -> Verdict:
    """Whether an estimate made of these terms, and its standard error, can be believed.

    Arguments:
        diagnostics: Of every term, see `diagnose`.
        relative_error: Standard error over the estimate's size, (*), where it is known: NaN where
            the draws cannot tell, infinite where they show that a proposal misses part of a term.
        more: Findings from elsewhere, such as those of `caution`.

    Warning:
        Mass that no draw of any component came near is not seen.
    """
    signed = "E1_minus" in diagnostics
    findings = [
        finding
        for name, term in diagnostics.items()
        for finding in _of_term(term, _short(name, signed), _short(term.proposal, signed))
    ]
    findings += more
    if relative_error is not None:
        # Draws that miss part of a term cannot tell the standard error.
        untold = np.any([each.holds for each in findings if each.level == NO_TRUST], axis=0)
        findings += [
            each._replace(holds=each.holds & ~(untold & (each.level < NO_TRUST)))
            for each in _of_error(np.asarray(relative_error, dtype=np.float64))
        ]
    codes = np.asarray(np.max([finding.level * finding.holds for finding in findings], axis=0))
    why = np.empty(codes.shape, dtype=object)
    why.fill(())
    for _, holds, words, numbers in sorted(findings, key=lambda finding: -finding.level):
        for place in map(tuple, np.argwhere(holds)):
            said = {name: float(values[place]) for name, values in numbers.items()}
            why[place] += (words.format(**said),)
    terms = diagnostics.values()
    return Verdict(
        codes,
        why,
        np.asarray(np.min([term.fewest_draws for term in terms], axis=0)),
        np.asarray(np.min([term.fewest_draws / term.draws for term in terms], axis=0)),
    )


def _of_term(term: TermDiagnostics, about: str, q: str) -> list[Finding]:
    n, effective, missed = term.draws, term.fewest_draws, term.missed_share
    none = term.effective_draws == 0
    few = ~none & (term.nonzero_draws < LEAST_DRAWS)
    confirmed = ~np.isnan(missed) & (term.pooled_draws >= CONFIRMED * term.effective_draws)
    uneven = (term.effective_draws < NEARLY_ALL * n) & ~confirmed
    fit = term.pareto_fit if uneven.all() else pareto_fit(term.weights, uneven)
    doubt = K_ERRORS * fit.error
    with np.errstate(invalid="ignore", divide="ignore"):
        heavy = uneven & ((fit.k - doubt > LARGEST_K) | np.isposinf(fit.k))
        error = np.sqrt(np.maximum(1 / effective - 1 / n, 0.0))
        unseen = (term.seen_share < missed / 2) | (effective < 1)
        much = unseen & (missed > MISSED_SHARE)
        some = ~much & (missed > MISSED_ERRORS * error) & (missed > 1e-9)
    rules = [
        (NO_TRUST, none, f"all {n} weights of {q} are zero"),
        (NO_TRUST, much, f"{q} misses {{missed:.1%}} of it, where it almost never samples"),
        (
            NO_TRUST,
            heavy,
            f"k-hat is {{k:.2f}} ± {{error:.2f}}, above {LARGEST_K}: {q} weights are heavy-tailed",
        ),
        (MORE_DRAWS, some, f"{{missed:.2%}} of it lies where {q} almost never samples"),
        (
            MORE_DRAWS,
            uneven & ~heavy & (fit.k + doubt > fit.threshold),
            "k-hat is {k:.2f} ± {error:.2f} and may exceed {threshold:.2f}, the limit for "
            "{of:,.0f} draws",
        ),
        (
            MORE_DRAWS,
            uneven & np.isnan(fit.k) & ~none & ~few,
            f"k-hat cannot be judged: too many of the largest weights of {q} are equal",
        ),
        (MORE_DRAWS, few, f"only {{nonzero:.0f}} weights of {q} are positive, too few to judge"),
        (
            MORE_DRAWS,
            ~none & (effective < LEAST_EFFECTIVE),
            f"the effective sample size of {q} is only {{effective:.1f}} of {n} draws",
        ),
    ]
    # The threshold is that of fewer draws where ties leave a shorter tail.
    fewer = 10 ** (1 / (1 - np.fmin(fit.threshold, LARGEST_K)))
    of = np.where(fit.threshold < LARGEST_K, fewer, term.nonzero_draws)
    numbers = {"missed": missed, "effective": effective, "nonzero": term.nonzero_draws, "of": of}
    numbers |= fit._asdict()
    return [Finding(level, holds, f"{about}: {words}", numbers) for level, holds, words in rules]


def _of_error(error: Array) -> list[Finding]:
    missed = np.isposinf(error)
    large = (error > LARGEST_RELATIVE_ERROR) & ~missed
    rules = [
        (NO_TRUST, missed, "its standard error is infinite: a proposal misses part of a term"),
        (MORE_DRAWS, np.isnan(error), "its standard error is not known"),
        (MORE_DRAWS, large, "its standard error is {error:.2g} times the estimate"),
    ]
    return [
        Finding(level, holds, f"mu: {words}", {"error": error}) for level, holds, words in rules
    ]


def _short(name: str, signed: bool) -> str:
    """E1_plus as E1+, or E1 where there is no other; likewise for proposals."""
    return name.replace("_plus", "+" if signed else "").replace("_minus", "-")

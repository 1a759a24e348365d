r"""What the diagnostics come to, in one word and a sentence."""

from __future__ import annotations

__all__ = ["LEVELS", "Finding", "Verdict", "judge"]

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amci_core.diagnostics.pareto import LARGEST_K, LEAST_DRAWS
from amci_core.diagnostics.term import TermDiagnostics
from amci_core.estimators.draws import Array

Flags = NDArray[np.bool_]

LEVELS = ("reliable", "use more draws", "do not trust")
RELIABLE, MORE_DRAWS, NO_TRUST = range(3)

# k-hat is itself known to some tenths: a proposal passes that stays below the threshold by so many
# of its standard errors, and is past help where it lies above the largest one by as many. Where
# weights vary so little that this share of the draws counts, the shape of what they vary by does
# not matter. Both are tuned by benchmarks/reliability.py.
K_ERRORS, NEARLY_ALL = 1.2, 0.98
# Below this many effective draws a term's mean is not yet nearly normal.
LEAST_EFFECTIVE = 20.0
# More of a term missed than this share of its standard error shifts the interval. If it is more
# than this share of the term, and its own draws show less than half of it, they are no witnesses.
MISSED_ERRORS, MISSED_SHARE = 0.3, 0.05
# A standard error beyond this share of the size of f leaves open what the estimate is.
LARGEST_RELATIVE_ERROR = 0.5


@dataclass(frozen=True)
class Finding:
    """One thing that speaks against an estimate, for a batch (*).

    Arguments:
        about: What it is about: E1, E1+, E1-, E2 or mu.
        level: What it leads to, an index of `LEVELS`.
        holds: For which of the batch, (*).
        words: What to say, with the names of numbers in braces.
        numbers: These numbers, each (*).
    """

    about: str
    level: int
    holds: Flags
    words: str
    numbers: Mapping[str, Array]

    def say(self) -> str:
        """The words, with the numbers of a single case."""
        return self.words.format(**{name: float(value) for name, value in self.numbers.items()})


@dataclass(frozen=True)
class Verdict:
    """Whether estimates can be believed, for a batch (*); index it for a single one.

    Arguments:
        codes: Indices of `LEVELS`, (*).
        findings: What speaks against them, most serious first.
        praise: What speaks for those that nothing speaks against.
    """

    codes: NDArray[np.int64]
    findings: tuple[Finding, ...]
    praise: tuple[Finding, ...]

    @property
    def level(self) -> NDArray[np.str_]:
        """One of `LEVELS` for each of the batch, (*)."""
        return np.array(LEVELS)[self.codes]

    @property
    def reasons(self) -> tuple[str, ...]:
        """What speaks against a single estimate, in words, most serious first.

        Raises:
            ValueError: there is more than one.
        """
        if self.codes.ndim:
            raise ValueError(
                f"verdict: index it for a single case, it has batch {self.codes.shape}"
            )
        return tuple(f"{f.about}: {f.say()}" for f in self.findings if f.holds)

    @property
    def text(self) -> str:
        """The verdict on a single estimate with its first reason, such as "do not trust E1: ...".

        Raises:
            ValueError: there is more than one.
        """
        reasons, level = self.reasons, LEVELS[int(self.codes)]
        if not reasons:
            return f"{level}: {next(praise.say() for praise in self.praise if praise.holds)}"
        return f"{level}{' ' if int(self.codes) == NO_TRUST else ': '}{reasons[0]}"

    def __getitem__(self, index: Any) -> Verdict:
        def take(finding: Finding) -> Finding:
            numbers = {name: value[index] for name, value in finding.numbers.items()}
            return Finding(
                finding.about, finding.level, finding.holds[index], finding.words, numbers
            )

        return Verdict(
            np.asarray(self.codes[index]),
            tuple(take(finding) for finding in self.findings),
            tuple(take(praise) for praise in self.praise),
        )


def judge(
    diagnostics: Mapping[str, TermDiagnostics], relative_error: Array | None = None
) -> Verdict:
    """Whether an estimate made of these terms, and its standard error, can be believed.

    A term's k-hat, effective draws and missed mass are judged, each on the draws that carry it.
    Nothing can be said of mass that no draw of any proposal has come near.

    Arguments:
        diagnostics: Of every term, see `diagnose`.
        relative_error: Standard error over the estimate's size, (*), where it is known: NaN where
            the draws cannot tell, infinite where they show that a proposal misses part of a term.
    """
    signed = "E1_minus" in diagnostics
    findings = [
        finding
        for name, term in diagnostics.items()
        for finding in _findings(term, about=_about(name, signed), carrier=_carrier(term, signed))
    ]
    if relative_error is not None:
        findings += _findings_of_error(np.asarray(relative_error, dtype=np.float64))
    findings.sort(key=lambda finding: -finding.level)
    codes = np.max([f.level * f.holds for f in findings], axis=0)
    return Verdict(np.asarray(codes), tuple(findings), _praise(diagnostics, codes))


def _praise(
    diagnostics: Mapping[str, TermDiagnostics], codes: NDArray[np.int64]
) -> tuple[Finding, Finding]:
    terms = diagnostics.values()
    effective = np.min([t.effective_draws for t in terms], axis=0)
    share = np.min([t.effective_draws / t.draws for t in terms], axis=0)
    even = share >= NEARLY_ALL
    return (
        Finding(
            "mu",
            RELIABLE,
            (codes == RELIABLE) & even,
            "weights hardly vary, {share:.1%} of the draws of every term count",
            {"share": share},
        ),
        Finding(
            "mu",
            RELIABLE,
            (codes == RELIABLE) & ~even,
            "the draws of every term count like {effective:.3g} perfect ones or more, and no "
            "heavy tail shows",
            {"effective": effective},
        ),
    )


def _findings(term: TermDiagnostics, *, about: str, carrier: str) -> list[Finding]:
    draws, effective = term.draws, term.effective_draws
    nothing = effective == 0
    reached = {"nonzero": term.nonzero_draws}
    uneven = effective < NEARLY_ALL * draws
    # Where it does not matter, it is not computed.
    k, error_of_k, threshold = term.pareto_fit_of(uneven)
    tail = {"k": k, "error": error_of_k, "threshold": threshold}
    doubt = K_ERRORS * error_of_k
    unfitted = np.isnan(k) & (term.nonzero_draws >= LEAST_DRAWS)
    with np.errstate(invalid="ignore", divide="ignore"):
        heavy = uneven & ((k - doubt > LARGEST_K) | np.isposinf(k))
        error = np.sqrt(np.maximum(1 / effective - 1 / draws, 0.0))
        missed = (term.missed_share > MISSED_ERRORS * error) & (term.missed_share > 1e-9)
        unseen = term.seen_share < term.missed_share / 2
        much = missed & unseen & (term.missed_share > MISSED_SHARE)
    return [
        Finding(about, NO_TRUST, nothing, f"none of the {draws} draws of {carrier} counts", {}),
        Finding(
            about,
            NO_TRUST,
            much,
            f"{{missed:.1%}} of it lies where {carrier} hardly ever draws, and has not",
            {"missed": term.missed_share},
        ),
        Finding(
            about,
            NO_TRUST,
            heavy,
            f"k-hat is {{k:.2f}} ± {{error:.2f}}, above {LARGEST_K}: the weights of {carrier} "
            "have so heavy a tail that the largest are still to come",
            tail,
        ),
        Finding(
            about,
            MORE_DRAWS,
            missed & ~much,
            f"{{missed:.2%}} of it lies where {carrier} hardly ever draws",
            {"missed": term.missed_share},
        ),
        Finding(
            about,
            MORE_DRAWS,
            uneven & ~heavy & (k + doubt > threshold),
            "k-hat is {k:.2f} ± {error:.2f}, not surely below {threshold:.2f}, the most that so "
            "many draws can vouch for",
            tail,
        ),
        Finding(
            about,
            MORE_DRAWS,
            uneven & unfitted,
            f"k-hat cannot be judged: too many of the largest weights of {carrier} are equal",
            {},
        ),
        Finding(
            about,
            MORE_DRAWS,
            (term.nonzero_draws < LEAST_DRAWS) & ~nothing,
            f"{{nonzero:.0f}} draws of {carrier} that count are too few to judge it",
            reached,
        ),
        Finding(
            about,
            MORE_DRAWS,
            (effective < LEAST_EFFECTIVE) & ~nothing,
            f"{draws} draws of {carrier} count like {{effective:.3g}} perfect ones",
            {"effective": effective},
        ),
    ]


def _findings_of_error(relative_error: Array) -> list[Finding]:
    numbers = {"error": relative_error}
    unknown, missed = np.isnan(relative_error), np.isposinf(relative_error)
    large = (relative_error > LARGEST_RELATIVE_ERROR) & ~missed
    return [
        Finding(
            "mu",
            NO_TRUST,
            missed,
            "its standard error is infinite: a proposal misses part of its term",
            {},
        ),
        Finding("mu", MORE_DRAWS, unknown, "the draws cannot tell its error", {}),
        Finding("mu", MORE_DRAWS, large, "its standard error is {error:.0%} of its size", numbers),
    ]


def _about(name: str, signed: bool) -> str:
    long = {"E1_plus": "E1+", "E1_minus": "E1-", "E2": "E2"}[name]
    return long if signed else long.rstrip("+")


def _carrier(term: TermDiagnostics, signed: bool) -> str:
    long = term.proposal.replace("_plus", "+").replace("_minus", "-")
    return long if signed else long.replace("+", "")

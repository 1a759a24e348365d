r"""What an estimate of mu(y, theta) says of itself; all but its value when it is asked for."""

from __future__ import annotations

__all__ = ["Estimate", "Precise", "Term"]

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from amci_core.diagnostics import TermDiagnostics, Verdict, diagnose, judge
from amci_core.diagnostics.verdict import NO_TRUST, Finding
from amci_core.estimators.combine import Prepared, Sharing
from amci_core.estimators.draws import Array
from amci_core.estimators.mis import Pooled, pooled
from amci_core.estimators.uncertainty import Uncertainty, uncertainty


@dataclass(frozen=True)
class Term:
    """One term of an estimate.

    Arguments:
        log_value: log|E_t| in nats, (*).
        sign: Its sign, (*).
    """

    log_value: Array
    sign: Array

    @property
    def value(self) -> Array:
        """The term itself, (*); zero where it underflows."""
        return self.sign * np.exp(self.log_value)


@dataclass(frozen=True)
class Estimate:
    """An estimate of mu(y, theta) for a batch (*) of pairs.

    Arguments:
        value: The estimate, (*), in units of f.
        terms: E1_plus, E1_minus (where f takes both signs) and E2.
        prepared: The table that it was made with, and its draws with those of the reference.
        draws: Draws used of each pair, all proposals together, a pilot's with them; without those
            of the reference, which only judge.
        positive: Whether mu is known to be positive.
        shift: The constant c that was taken from f and added back, in units of f.
        cautions: What a check of the proposals says against estimates near here.

    Warning:
        No error can be seen of mass that no draw has come near. The proposals' draws and those of
        the problem's broad reference are what the verdict rests on.
    """

    value: Array
    terms: dict[str, Term]
    prepared: Prepared = field(repr=False)
    draws: int
    positive: bool
    shift: float = 0.0
    cautions: tuple[Finding, ...] = field(default=(), repr=False)

    @cached_property
    def _pooled(self) -> Pooled:
        return pooled(self.prepared.draws)

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """The error of value - shift."""
        E2 = self.terms["E2"]
        with np.errstate(over="ignore"):
            size = np.exp(E2.log_value - self._pooled.log_scale)
        return uncertainty(self.prepared, self._pooled, self.value - self.shift, E2.sign * size)

    @cached_property
    def diagnostics(self) -> dict[str, TermDiagnostics]:
        """Per term: effective sample size, largest weight, k-hat, and the mass that is missed."""
        return diagnose(self.prepared, self._pooled, self.uncertainty.term_errors)

    @property
    def sharing(self) -> Sharing | None:
        """What `auto` decided; None for other estimators."""
        return self.prepared.sharing

    @property
    def standard_error(self) -> Array:
        """By the delta method from the draws of all components, (*), in units of f.

        NaN where the draws are too few to tell, or give E1 and E2 at once with the same f at all
        of them: nothing then says how wrong the value is. Infinite where the draws of another
        component show that a proposal misses part of a term it is used for.
        """
        return self.uncertainty.standard_error

    @property
    def covariance(self) -> Array:
        """Covariance of the estimates of (E1_plus - E1_minus, E2), over E2 squared, (*, 2, 2)."""
        return self.uncertainty.covariance

    @cached_property
    def verdict(self) -> Verdict:
        """Whether it can be believed, (*), with reasons in words for single pairs."""
        # Gains and losses that cancel leave a small mu, but not a bad estimate of it.
        *parts, E2 = self.terms.values()
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            size = sum(np.exp(part.log_value - E2.log_value) for part in parts)
            error = self.standard_error / np.maximum(size, abs(self.value))
        return judge(self.diagnostics, error, self.cautions)

    @property
    def bias(self) -> Array:
        """Bias of the ratio to first order in 1 / n, (*), in units of f, from the same moments."""
        return self.uncertainty.bias

    @property
    def corrected(self) -> Array:
        """The estimate with its bias taken off, (*), in units of f."""
        return np.asarray(self.value - np.where(np.isfinite(self.bias), self.bias, 0.0))

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """A central interval for mu of that level, as lower and upper ends, each (*).

        It reaches as far as the studentized error needs. On the log scale where mu is known to be
        positive, so that it stays so; Fieller's else, and where reused draws made the estimate
        itself negative. Fieller's is infinite where E2 cannot be told from zero.

        Raises:
            ValueError: the level does not lie strictly between 0 and 1.
        """
        lower, upper = self.uncertainty.interval(level, positive=self.positive)
        return np.asarray(lower + self.shift), np.asarray(upper + self.shift)


@dataclass(frozen=True)
class Precise:
    """Estimates with the precision that was wanted, or what was reached, for a batch (*) of pairs.

    Arguments:
        value: The estimates, (*), in units of f.
        standard_error: Of them, (*), in units of f.
        interval: Lower and upper ends of their 95 % intervals, each (*), in units of f.
        relative_half_width: Half of the width of these over the estimate, (*).
        reached: Whether that is as small as wanted, (*); never where the verdict is "do not
            trust".
        draws: Draws of q1_plus, q1_minus and q2, (*, 3).
        verdict: Whether they can be believed, (*).
        steps: Draws in all and the relative half-width after each step; for a batch, draws of all
            pairs and the largest half-width of those that were looked at.
        single: The estimate of a single pair; None for a batch.
    """

    value: Array
    standard_error: Array
    interval: tuple[Array, Array]
    relative_half_width: Array
    reached: NDArray[np.bool_]
    draws: NDArray[np.int64]
    verdict: Verdict
    steps: tuple[tuple[int, float], ...]
    single: Estimate | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """Whether a single pair, or a batch of one, reached the precision, and if not, why.

        Raises:
            ValueError: there are several pairs.
        """
        verdict = self.verdict.text
        if self.reached.all():
            return "yes"
        if self.verdict.codes.item() == NO_TRUST:
            return f"no: {verdict}"
        width = self.relative_half_width.item()
        size = f"{width:.2g} of the estimate" if width < 1 else "larger than the estimate"
        return f"no: the half-width is {size} after {self.draws.sum():,} draws"

    @property
    def estimate(self) -> Estimate:
        """The estimate of a single pair with its terms and diagnostics; `draws` are all of them.

        Raises:
            ValueError: there are several pairs.
        """
        if self.single is None:
            raise ValueError(f"estimate: expected a single pair, got batch {self.value.shape}")
        return self.single

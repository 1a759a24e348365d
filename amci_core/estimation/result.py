r"""What an estimate of mu(y, theta) says of itself; all but its value when it is asked for."""

# mypy: disable-error-code="override"
# Attributes of the base are fields of one result and properties, made when asked for, of another.

from __future__ import annotations

__all__ = ["Estimate", "Precise", "Term"]

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amci_core.diagnostics import TermDiagnostics, Verdict
from amci_core.diagnostics.term import diagnose
from amci_core.diagnostics.verdict import NOTHING_KNOWN, RELIABLE, Requirements, judge
from amci_core.estimators.base import Combined, Prepared
from amci_core.estimators.control_variates import Regressed, Regression, regress
from amci_core.estimators.draws import COMPLEMENT, COMPONENTS, TERMS, Array, log
from amci_core.estimators.mis import Pooled, pooled
from amci_core.estimators.uncertainty import Errors, Uncertainty, table_errors
from amci_core.flows.posterior import inference_data, resampled_rows
from amci_core.printing import Printed

# The level of the interval that is shown.
LEVEL = 0.95
# What `as_dict` holds of a term's diagnostics.
FIGURES = (
    *("proposal", "draws", "ess", "smallest_ess", "largest_weight", "nonzero_share"),
    *("uncovered_mass", "pareto_k", "pareto_threshold"),
)


@dataclass(frozen=True, repr=False)
class Term(Printed):
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


class EstimateBase:
    """An estimate of mu for a batch (*) of cases, with its uncertainty and a verdict.

    `print` shows value, standard error, 95 % interval and verdict; of a batch, how they range.

    Attributes:
        value: The estimate, (*), in units of f; 0 where it underflows.
        uncertainty: The error of value - shift, in a unit of about its size.
        verdict: Whether to believe both: reliable, use more draws or do not trust, with reasons.
        shift: The constant c that was taken from f and added back, in units of f.
    """

    value: Array
    uncertainty: Uncertainty
    verdict: Verdict
    shift: float = 0.0

    @property
    def log_value(self) -> Array:
        """log|value| in nats, (*), which no size of mu makes underflow; -inf where it is zero."""
        value, log_unit = self.uncertainty.value, self.uncertainty.log_unit
        if self.shift:
            value, log_unit = self.value, np.zeros(())
        return log(np.abs(value)) + log_unit

    @property
    def standard_error(self) -> Array:
        """By the delta method from the draws of all components, (*), in units of f.

        NaN where the draws are too few to tell, one draw outweighs all others, or f is the same
        at all that estimate E1: nothing then says how wrong the value is. Infinite where the
        draws of another component show that a proposal misses part of a term it is used for.
        """
        return self._in_f(self.uncertainty.standard_error)

    @property
    def relative_standard_error(self) -> Array:
        """`standard_error` over |value|, (*), for a mu of any size."""
        error, log_unit = self.uncertainty.standard_error, self.uncertainty.log_unit
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(error * np.exp(log_unit - self.log_value))

    def _in_f(self, values: Array) -> Array:
        """Values (*) in the unit of `uncertainty` in units of f."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(np.isinf(values), values, values * np.exp(self.uncertainty.log_unit))

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """A central interval for mu of that level, as lower and upper ends, each (*).

        Student's t on the standard error; on the log scale where mu is known to be positive and
        the estimate is, and of the log-odds where q1_complement shows how near mu is to the upper
        end of f.

        Raises:
            ValueError: the level does not lie strictly between 0 and 1.
        """
        lower, upper = self.uncertainty.interval(level)
        return self._in_f(lower) + self.shift, self._in_f(upper) + self.shift

    def relative_half_width(self, level: float = 0.95) -> Array:
        """Half of the width of the interval over |value|, (*), without a shift; inf if unknown."""
        lower, upper = self.uncertainty.interval(level)
        with np.errstate(invalid="ignore", divide="ignore"):
            widths = (upper - lower) / 2 / abs(self.uncertainty.value)
        return np.where(np.isfinite(widths), widths, np.inf)

    def as_dict(self) -> dict[str, Any]:
        """The figures of a single case in plain values, for JSON."""
        return {
            "value": self.value,
            "log_value": self.log_value,
            "standard_error": self.standard_error,
            "relative_standard_error": self.relative_standard_error,
            "interval_95": self.interval(LEVEL),
            "verdict": self.verdict.as_dict(),
        }

    def __str__(self) -> str:
        if self.value.size != 1:
            return _of_batch(self)
        value, error = self.value.item(), self.standard_error.item()
        relative = float(self.relative_standard_error.item())
        low, high = (end.item() for end in self.interval(LEVEL))
        digits = 6
        if 0 < relative < math.inf:
            digits = min(max(2 - math.floor(math.log10(relative)), 3), 12)
        mu, known, interval = f"{value:.{digits}g}", "not known", "not known"
        if value == 0 and np.isfinite(self.log_value):
            mu = f"exp({self.log_value.item():.6g})"
        if not math.isnan(error):
            known, interval = f"{error:.2g}", f"{low:.{digits}g} to {high:.{digits}g}"
        if math.isfinite(relative):
            known += f" ({100 * relative:.3g} %)"
        return (
            f"mu = {mu}, standard error {known}\n"
            f"{100 * LEVEL:g} % interval: {interval}\n"
            f"{self.verdict.text}"
        )

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Estimate(EstimateBase):
    """An estimate of mu(y, theta) for a batch (*) of cases.

    `print` shows value, standard error, 95 % interval and verdict; of a batch, how they range.

    Arguments:
        prepared: The estimator's table and its draws, with those of the defensive density.
        positive: Whether mu is known to be positive.
        shift: The constant c that was taken from f and added back, in units of f.
        requirements: What a verdict requires near this case.

    Attributes:
        terms: The estimates of E1_plus, E1_minus and E2, by name.
        diagnostics: By term ESS, largest normalized weight and Pareto k-hat.

    Warning:
        A sample cannot reveal a region that it never visits. The verdict rests on the draws of the
        proposals and of the defensive density.
    """

    prepared: Prepared
    positive: bool
    shift: float = 0.0
    requirements: Requirements = NOTHING_KNOWN

    @property
    def draws(self) -> int:
        """Total number of draws of each case, those of the defensive density included."""
        return self.prepared.draws.n

    @cached_property
    def combined(self) -> Combined:
        """Terms and ratio; the last one is the estimate."""
        by_all = isinstance(self.prepared, Regressed)
        return self._control.combined if by_all else self.prepared.combine()

    @cached_property
    def value(self) -> Array:
        """The estimate, (*), in units of f; 0 where it underflows, see `log_value`."""
        return np.asarray(self.combined.value[..., -1] + self.shift)

    @cached_property
    def terms(self) -> dict[str, Term]:
        """E1_plus, E1_minus (where f takes both signs) and E2, by name.

        With draws of q1_complement also E1_complement, the integral of (M - f) p(x, y).
        """
        sign, log_terms = self.combined.sign[..., -1, :], self.combined.log_terms[..., -1, :]
        terms = {
            TERMS[t]: Term(log_terms[..., t], sign[..., t]) for t in self.prepared.draws.terms
        }
        if self.bound is not None:
            log_value = self._complement.combine().log_terms[..., -1, 0]
            terms["E1_complement"] = Term(log_value, np.isfinite(log_value) * 1.0)
        return terms

    @property
    def bound(self) -> float | None:
        """M, where draws of q1_complement serve the estimate."""
        draws = self.prepared.draws
        serve = isinstance(self.prepared, Regressed) and draws.count(COMPLEMENT)
        return draws.f_max if serve else None

    @property
    def _complement(self) -> Prepared:
        """(M - f) p(x, y) from q1_complement, by itself."""
        other = self.prepared.draws.complement()
        return Prepared(np.diag([1.0, 0, 0]), other, names=(COMPONENTS[COMPLEMENT], "", ""))

    @cached_property
    def _pooled(self) -> Pooled:
        return pooled(self.prepared.draws)

    @cached_property
    def _control(self) -> Regression:
        return regress(self.prepared.components or self.prepared.draws)

    @cached_property
    def errors(self) -> Errors:
        """What each draw adds to the estimate's error."""
        if isinstance(self.prepared, Regressed):
            return self._control.errors
        return table_errors(self.prepared, self.combined, self._pooled)

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """The error of value - shift, in a unit of about its size."""
        by_draws, r_eff = self.errors.uncertainty, self.requirements.r_eff
        high = np.inf if self.bound is None else self.bound
        with np.errstate(over="ignore"):
            return replace(
                by_draws,
                standard_error=by_draws.standard_error / np.sqrt(r_eff),
                effective=by_draws.effective * r_eff,
                positive=np.full_like(by_draws.value, self.positive, dtype=bool),
                high=high * np.exp(-by_draws.log_unit),
            )

    @cached_property
    def diagnostics(self) -> dict[str, TermDiagnostics]:
        """Per term: effective sample size, largest weight, k-hat, and the mass that is missed."""
        diagnostics = diagnose(self.prepared, self._pooled)
        if self.bound is not None:
            other = self._complement
            diagnostics["E1_complement"] = diagnose(other, pooled(other.draws))["E1_plus"]
        return diagnostics

    @cached_property
    def verdict(self) -> Verdict:
        """Whether it can be believed, (*), with reasons in words for single cases."""
        return judge(self._control, self.errors, self.requirements)

    def to_arviz(self) -> Any:
        """ArviZ's InferenceData of a single estimate.

        `posterior` has f, in units of f, at the draws of all components, resampled by their
        weights to follow p(x | y): its mean is an estimate of mu, less precise than this one.
        `weighted_draws` has the draws themselves in the columns that `estimate_from_draws` reads,
        which by the same estimator gives the same value; with a shift f there is f - shift.

        Raises:
            ImportError: neither arviz-base nor arviz is installed.
            ValueError: the estimate is of several cases, or came without diagnosis.

        Example:
            >>> import amci_core as amci
            >>> e = amci.estimate("tail-1d", y=1.0, theta=3.0, draws=1000)
            >>> data = e.to_arviz()
            >>> bool(abs(amci.estimate_from_draws(data).value / e.value - 1) < 1e-12)
            True
        """
        draws = self.prepared.components or self.prepared.draws
        if draws.batch:
            raise ValueError(f"to_arviz: expected one case, got {draws.batch}. Estimate it alone")
        log_weights = draws.log_joint - pooled(draws).log_mixture
        # Rows of a component follow one another, which no diagnostic of a chain should see.
        order = np.random.default_rng(0).permutation(draws.n)
        rows = order[resampled_rows(log_weights[order])]
        columns = {f"log_q_{COMPONENTS[j]}": draws.log_q[j] for j in draws.counts}
        component = np.repeat([COMPONENTS[j] for j in draws.counts], list(draws.counts.values()))
        columns |= {"f": draws.f, "log_joint": draws.log_joint, "component": component}
        columns = {name: column[order] for name, column in columns.items()}
        for name, value in {"log_E2": draws.log_E2, "f_max": draws.f_max}.items():
            if value is not None:
                columns[name] = np.full(draws.n, value)
        return inference_data(posterior={"f": draws.f[rows] + self.shift}, weighted_draws=columns)

    def as_dict(self) -> dict[str, Any]:
        """The figures of a single estimate in plain values, for JSON."""
        terms: dict[str, dict[str, Any]] = {
            name: {"value": term.value, "log_value": term.log_value, "sign": term.sign}
            for name, term in self.terms.items()
        }
        for name, diagnostics in self.diagnostics.items():
            terms[name] |= {figure: getattr(diagnostics, figure) for figure in FIGURES}
        return super().as_dict() | {"shift": self.shift, "draws": self.draws, "terms": terms}


@dataclass(frozen=True, repr=False)
class Precise(EstimateBase):
    """Estimates to a requested precision, for a batch (*) of cases.

    Arguments:
        value: The estimates, (*), in units of f.
        uncertainty: Their errors.
        verdict: Whether they can be believed.
        draws: Draws of each case, those of estimates that were not precise enough included, (*).
        relative_error: The requested half-width of 95 % intervals over the estimates.
    """

    value: Array
    uncertainty: Uncertainty
    verdict: Verdict
    draws: NDArray[np.int64]
    relative_error: float

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Whether an estimate is as precise as requested and its verdict "reliable", (*)."""
        narrow = self.relative_half_width(LEVEL) <= self.relative_error
        return np.asarray((self.verdict.codes == RELIABLE) & narrow)

    def as_dict(self) -> dict[str, Any]:
        """The figures of a single case in plain values, for JSON."""
        return super().as_dict() | {
            "draws": self.draws,
            "reached": self.reached,
            "relative_half_width": self.relative_half_width(LEVEL),
        }

    def __str__(self) -> str:
        reached = "yes" if self.reached.all() else "no"
        if self.reached.size > 1:
            reached = f"{self.reached.sum():,} of {self.reached.size:,}"
        return (
            f"{super().__str__()}\n"
            f"as precise as requested: {reached}, after {self.draws.sum():,} draws"
        )

    __repr__ = __str__


def _of_batch(e: EstimateBase) -> str:
    """How the estimates of a batch range, in three lines."""
    values, errors = e.value[~np.isnan(e.value)], e.relative_standard_error
    known = errors[np.isfinite(errors)]
    ends, spread = "no value", "not known"
    if values.size:
        ends = f"{values.min():.4g} to {values.max():.4g}"
    if known.size:
        spread = f"{100 * np.median(known):.3g} % in the median, {100 * known.max():.3g} % at most"
        if known.size < errors.size:
            spread += f", not known for {errors.size - known.size:,}"
    return (
        f"{e.value.size:,} estimates of mu, shape {e.value.shape}: {ends}\n"
        f"relative standard error: {spread}\n"
        f"{e.verdict}"
    )

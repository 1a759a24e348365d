r"""Diagnosing draws from elsewhere: from PyMC, ArviZ, sbi or a program of one's own.

All that an estimator sees are numbers (`Draws`): f, log p(x, y) and the log density of every
component at every draw. Whoever has these needs neither a problem nor a flow.
"""

from __future__ import annotations

__all__ = ["TableDiagnosis", "diagnose"]

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from amci_core._arguments import check_number
from amci_core.diagnostics import Verdict
from amci_core.diagnostics.verdict import Evidence
from amci_core.estimation.result import Estimate
from amci_core.estimators import COMPONENTS, PROPOSALS, Draws, Tabled, resolve, tables
from amci_core.estimators.combine import Prepared
from amci_core.estimators.draws import Array
from amci_core.estimators.estimators import balanced

# The estimates that a table of draws can give, the most exact first: each term from all draws;
# each from its own proposal; all from the mixture q_m of all draws; from q2 or the only component.
ESTIMATES = ("amci-cv", "amci", "snis-qm", "snis")
# Copies of rows are no accident from this share on, and where rows take more than a few values.
COPIES, FEW_VALUES = 0.02, 10
# Rows within so many of one another are correlated beyond so many standard deviations.
LAGS, CORRELATED = 64, 5.0


@dataclass(frozen=True)
class TableDiagnosis:
    """What a table of draws says.

    Arguments:
        estimates: For the names of `ESTIMATES` that the table can give, the estimate with its
            standard error, interval, diagnostics of each term and verdict.
        missing: For the others, what they lack, in words.
        counts: Number of draws of every component, by its name.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(0.0, 1.5, 2000)  # draws of N(0, 1.5^2), for E[x^2] under N(0, 1)
        >>> found = diagnose(
        ...     log_joint=-np.square(x) / 2,
        ...     log_q=-np.square(x / 1.5) / 2 - np.log(1.5 * np.sqrt(2 * np.pi)),
        ...     f=np.square(x),
        ... )
        >>> found.name, str(found.verdict.level), bool(abs(found.value - 1) < 0.1)
        ('snis', 'reliable', True)
    """

    estimates: Mapping[str, Estimate]
    missing: Mapping[str, str]
    counts: Mapping[str, int]

    @property
    def name(self) -> str:
        """The first of `ESTIMATES` that there is: what `value` and the like speak of."""
        return next(name for name in ESTIMATES if name in self.estimates)

    @property
    def estimate(self) -> Estimate:
        """The estimate of that name."""
        return self.estimates[self.name]

    @property
    def value(self) -> Array:
        """mu, in units of f."""
        return self.estimate.value

    @property
    def standard_error(self) -> Array:
        """Of `value`, in units of f."""
        return self.estimate.standard_error

    @property
    def verdict(self) -> Verdict:
        """Whether `value` can be believed, with reasons in words."""
        return self.estimate.verdict

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain values, for JSON."""
        return {
            "draws": dict(self.counts),
            "estimates": {name: found.as_dict() for name, found in self.estimates.items()},
            "missing": dict(self.missing),
        }


def diagnose(
    *,
    log_joint: ArrayLike,
    log_q: ArrayLike | Mapping[str, ArrayLike],
    f: ArrayLike,
    component: ArrayLike | None = None,
    log_E2: float | None = None,
    r_eff: float | None = None,
) -> TableDiagnosis:
    """Estimates mu = E[f] from a table of n independent draws, and says whether to believe it.

    Nothing is drawn: the same table gives the same numbers. Where f >= 0 at all draws, f is taken
    to be so everywhere.

    Arguments:
        log_joint: log p(x, y) in nats at every draw, (n,); -inf where the density is zero. With a
            single component, or with `log_q` up to the same constant everywhere, it may lack a
            constant, which cancels.
        log_q: Log density in nats at every draw, (n,), of the only component; or for every
            component by its name, at the draws of all of them. Names are q1_plus, q1_minus, q2 and
            defensive, a broad density that shows what the others miss; a single one may have any.
        f: f at every draw, (n,), in units of f; anything where the density is zero.
        component: Which component each draw came from, (n,); not needed for a single one.
        log_E2: log E2 in nats, where it is known.
        r_eff: Effective number of independent draws over n, in (0, 1], for dependent ones such as
            a Markov chain's (ArviZ: `ess / n`). Standard errors then count so many draws.

    Returns:
        AMCI, with control variates and without, where there are draws for each of its terms, SNIS
        with the mixture where there are several components, SNIS with q2 or the only one. Without
        draws of the defensive density nothing can tell what all others miss.

    Raises:
        ValueError: lengths differ, a column is missing, a name is unknown, numbers are NaN or
            infinite where they must not be, or there is nothing to estimate with.

    Warning:
        Rows must be independent draws, in the order in which they were drawn. Copies of rows and
        correlated rows are refused as "do not trust", unless `r_eff` is given. No diagnostic sees
        mass that no draw came near.

    See also:
        `amci diagnose table.csv` for the command line.
    """
    draws, called, counts = _draws(log_joint, log_q, f, component, log_E2)
    expected = "a number above 0, at most 1"
    share = 1.0 if r_eff is None else check_number("r_eff", r_eff, expected, lambda v: 0 < v <= 1)
    against = tuple(_dependence(draws)) if r_eff is None else ()
    estimates, missing = {}, {}
    for name in ESTIMATES:
        made = _prepared(name, draws)
        if isinstance(made, str):
            missing[name] = made
        else:
            estimates[name] = Estimate(
                made if name == "snis-qm" else replace(made, names=called),
                draws=draws.n,
                positive=not draws.signed,
                evidence=Evidence(against=against, r_eff=share),
            )
    if not estimates:
        raise ValueError(f"component: nothing can be estimated: {'; '.join(missing.values())}")
    return TableDiagnosis(estimates, missing, counts)


def _draws(
    log_joint: ArrayLike,
    log_q: ArrayLike | Mapping[str, ArrayLike],
    f: ArrayLike,
    component: ArrayLike | None,
    log_E2: float | None,
) -> tuple[Draws, tuple[str, ...], dict[str, int]]:
    """Draws, the names of the components in the proposals' places, and numbers of draws."""
    n = np.size(log_joint)
    log_joint, f = _column("log_joint", log_joint, n), _column("f", f, n)
    there = log_joint > -np.inf
    _check("log_joint", log_joint, ~(log_joint < np.inf), "numbers below infinity")
    _check("f", f, there & ~np.isfinite(f), "finite numbers where the density is not zero")
    if not there.any():
        raise ValueError("log_joint: expected a density above zero somewhere, got -inf everywhere")
    names = None if component is None else np.asarray(component).astype(str)
    if not isinstance(log_q, Mapping):
        log_q = {"q" if names is None else str(names[0]): log_q}
    if names is None:
        if len(log_q) > 1:
            raise ValueError("component: expected the name of each draw's component, got None")
        names = np.full(n, next(iter(log_q)))
    if names.shape != (n,) or set(names) != set(log_q):
        raise ValueError(
            f"component: expected one of {', '.join(log_q)} for each of {n:,} draws, and draws of "
            f"each, got {', '.join(sorted(set(names)))} for {len(names):,}"
        )
    if len(log_q) > 1 and not set(log_q) <= set(COMPONENTS):
        raise ValueError(
            f"log_q: expected components among {', '.join(COMPONENTS)}, got {', '.join(log_q)}"
        )
    # A single component of another name stands in the place of q2.
    slots = {COMPONENTS.index(k if k in COMPONENTS else "q2"): k for k in log_q}
    slots = dict(sorted(slots.items()))
    densities = {}
    for j, name in slots.items():
        title = f"log_q of {name}" if len(slots) > 1 else "log_q"
        densities[j] = _column(title, log_q[name], n)
        _check(title, densities[j], ~(densities[j] < np.inf), "numbers below infinity")
        lost = (names == name) & (densities[j] == -np.inf)
        _check(title, densities[j], lost, "finite numbers at its own draws")
    order = np.concatenate([np.flatnonzero(names == name) for name in slots.values()])
    f = np.where(there, f, 0.0)
    counts = {j: int((names == name).sum()) for j, name in slots.items()}
    draws = Draws(
        f=f[order],
        log_joint=log_joint[order],
        log_q={j: log_density[order] for j, log_density in densities.items()},
        counts=counts,
        signed=bool((f < 0).any()),
        log_E2=None if log_E2 is None else np.asarray(check_number("log_E2", log_E2)),
    )
    called = tuple(slots.get(j, name) for j, name in enumerate(PROPOSALS))
    return draws, called, {slots[j]: count for j, count in counts.items()}


def _column(name: str, values: ArrayLike, n: int) -> Array:
    """A column of n numbers."""
    try:
        column = np.asarray(values)
        # Of a list, the message names an entry as it is.
        text = column.dtype.kind in "USO"
        column = np.array(column.tolist() if text else column, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{name}: expected numbers: {error}") from None
    if column.shape != (n,) or n < 2:
        raise ValueError(f"{name}: expected {max(n, 2):,} numbers in a row, got {column.shape}")
    return column


def _check(name: str, column: Array, bad: NDArray[np.bool_], expected: str) -> None:
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"{name}: expected {expected}, got {column[at]} at draw {at + 1:,}")


def _dependence(draws: Draws) -> Iterator[str]:
    """Why rows are not independent draws, in sentences."""
    rows = np.stack([draws.f, draws.log_joint, *draws.log_q.values()])
    distinct = np.unique(rows, axis=1).shape[1]
    # Without a density that varies, ties say nothing.
    if FEW_VALUES < distinct < (1 - COPIES) * draws.n:
        yield (
            f"{draws.n - distinct:,} of {draws.n:,} rows are copies of others, as after "
            "resampling or for a discrete x: they are not independent draws"
        )
    for j in draws.counts:
        part, n = draws.stretch(j), draws.count(j)
        ranks = rankdata([draws.f[part], draws.log_joint[part], draws.log_weight(j)], axis=-1)
        ranks -= (n + 1) / 2
        spectrum = np.abs(np.fft.rfft(ranks, 2 * n, axis=-1)) ** 2
        products = np.fft.irfft(spectrum, axis=-1)[:, : min(LAGS + 1, n)]
        correlations = products[:, 1:] / np.maximum(products[:, :1], 1.0)
        if (correlations > CORRELATED / np.sqrt(n)).any():
            yield (
                f"rows of {COMPONENTS[j]} are correlated with later ones ("
                f"{correlations.max():.2f}), as in Markov chains or a sorted table: give r_eff "
                "for the former, and the order of the draws for the latter"
            )


def _prepared(name: str, draws: Draws) -> Prepared | str:
    """What the estimator of that name makes of the draws, or what they lack, in words."""
    if name == "snis":
        if draws.count(2):
            return Tabled(tables.snis_q2()).prepare_all(draws)
        if draws.present == (0,):
            return Tabled(tables.snis_q1()).prepare_all(draws)
        return "there are no draws of q2"
    if name != "amci" and len(draws.counts) < 2:
        return "there is a single component"
    if name == "snis-qm":
        return balanced(draws, list(draws.counts))
    wanted = (not draws.signed or (draws.f > 0).any(), draws.signed, draws.log_E2 is None)
    lacking = [PROPOSALS[j] for j in range(3) if wanted[j] and not draws.count(j)]
    if lacking:
        return f"there are no draws of {' and '.join(lacking)}"
    if name == "amci-cv":
        return resolve("amci-cv").prepare_all(draws)
    table = tables.amci()
    table[0, 0], table[2, 2] = draws.count(0) > 0, draws.log_E2 is None
    return Tabled(table).prepare_all(draws)

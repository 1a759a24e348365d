r"""Diagnosing draws from elsewhere: from PyMC, ArviZ, sbi or your own program.

All that an estimator sees are numbers (`Draws`): f, log p(x, y) and the log density of every
component at every draw. A user who has these needs neither a problem nor a flow.
"""

from __future__ import annotations

__all__ = ["TableDiagnosis", "diagnose", "is_column"]

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from scipy.stats import rankdata

from amci_core._arguments import check_number
from amci_core.diagnostics import Verdict
from amci_core.diagnostics.verdict import Requirements
from amci_core.estimation.result import Estimate
from amci_core.estimators import COMPONENTS, PROPOSALS, Draws, Tabled, resolve, tables
from amci_core.estimators.base import Prepared
from amci_core.estimators.draws import Array
from amci_core.estimators.estimators import balanced
from amci_core.estimators.mis import pooled
from amci_core.tabular import MAX_ROWS

# The estimates that a table of draws can give, the most exact first: each term from all draws;
# each from its own proposal; all from the mixture q_m of all draws; from q2 or the only component.
ESTIMATES = ("amci-cv", "amci", "snis-qm", "snis")
# What others call these columns: Stan's variational approximations and Pathfinder, PyMC.
CALLED = {"log_joint": ("log_p__", "lp__", "lp"), "log_q": ("log_g__", "lp_approx__")}
SEVERAL = "log_q_"
# Copies of rows are no accident from this share of a term on, where rows take more than a few
# values.
COPIES, FEW_VALUES = 0.01, 10
# Rows with less than this part of the average row's share in every term do not count.
NEGLIGIBLE = 1e-3
# Densities in such steps, in nats, are rounded; so many significant digits are few; stretches of
# sorted numbers in which their density is about the same.
STEP, DIGITS, STRETCH = 0.1, range(1, 9), 200
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

    def __repr__(self) -> str:
        draws = ", ".join(f"{n:,} of {name}" for name, n in self.counts.items())
        return f"{self.name} from draws: {draws}\n{self.estimate}"

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain values, for JSON."""
        return {
            "draws": dict(self.counts),
            "estimates": {name: found.as_dict() for name, found in self.estimates.items()},
            "missing": dict(self.missing),
        }


def diagnose(
    table: Any = None,
    *,
    log_joint: ArrayLike | None = None,
    log_q: ArrayLike | Mapping[str, ArrayLike] | None = None,
    f: ArrayLike | str = "f",
    component: ArrayLike | None = None,
    log_weight: ArrayLike | None = None,
    log_E2: float | None = None,
    f_max: float | None = None,
    r_eff: float | None = None,
) -> TableDiagnosis:
    """Estimates mu = E[f] from a table of n independent draws, and says whether to believe it.

    Nothing is drawn: the same table gives the same numbers. Where f >= 0 at all draws, f is taken
    to be so everywhere. Arrays may have any shape, such as (chains, draws), the same for all.

    Arguments:
        table: Where to find what is not given by name: a mapping of columns, a data frame, an
            InferenceData or its dict. Several densities are `log_q_q1_plus`, `log_q_q2` and so
            on. What Stan calls log_p__ or lp__ is `log_joint`, its log_g__ or lp_approx__ `log_q`.
        log_joint: log p(x, y) in nats at every draw; -inf where the density is zero. With a single
            component, or with `log_q` up to the same constant everywhere, it may lack a constant,
            which cancels.
        log_q: Log density in nats at every draw, of the only component; or for every component by
            its name, at the draws of all of them. Names are q1_plus, q1_minus, q2, q1_complement
            and defensive, a broad density that shows what the others miss; a single one may have
            any.
        f: f at every draw, in units of f; anything where the density is zero. Or the name of its
            column.
        component: Which component each draw came from; not needed for a single one.
        log_weight: log_joint - log_q in nats, instead of both.
        log_E2: log E2 in nats, where it is known.
        f_max: M, where f lies in [0, M], for draws of q1_complement, which serve M - f.
        r_eff: Effective number of independent draws over n, in (0, 1], for dependent ones such as
            a Markov chain's (ArviZ: `ess / n`). Standard errors then count so many draws.

    Returns:
        AMCI, with control variates and without, where there are draws for each of its terms, SNIS
        with the mixture where there are several components, SNIS with q2 or the only one. Without
        draws of the defensive density nothing can tell what all others miss.

    Raises:
        ValueError: shapes differ, a column is missing, a name is unknown, numbers are NaN or
            infinite where they must not be, there are more than 5,000,000 draws, or there is
            nothing to estimate with.

    Warning:
        Rows must be independent draws, in the order in which they were drawn. Copies of rows and
        correlated rows are refused as "do not trust", unless `r_eff` is given. No diagnostic sees
        mass that no draw reached.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(4, 500))  # chains, draws
        >>> diagnose({"log_weight": 0 * x, "x": x}, f="x").counts
        {'q': 2000}

    See also:
        `amci diagnose table.csv` for the command line.
    """
    columns = _columns_of(table)
    given = {"log_joint": log_joint, "log_q": log_q, "component": component}
    given |= {"log_weight": log_weight, "f": f}
    if isinstance(f, str):
        given["f"] = columns.get(f)
        columns.pop("f", None)
    columns |= {name: value for name, value in given.items() if value is not None}
    for name in ("log_joint", "log_q"):
        also = (each for each in CALLED[name] if each in columns)
        if name not in columns and (called_so := next(also, None)) is not None:
            columns[name] = columns[called_so]
    several = {n.removeprefix(SEVERAL): c for n, c in columns.items() if n.startswith(SEVERAL)}
    if "log_weight" in columns and not (several or {"log_joint", "log_q"} <= columns.keys()):
        columns["log_joint"] = columns["log_weight"]
        columns["log_q"] = np.zeros(np.shape(columns["log_weight"]))
    if several and "log_q" in columns:
        raise ValueError(f"log_q: expected log_q, or {SEVERAL}NAME for each component, got both")
    if several:
        columns["log_q"] = several
    for name in ("f", "log_joint", "log_q"):
        if name not in columns:
            others = ", ".join(["log_weight", *CALLED[name]]) if name in CALLED else ""
            others += f" or {SEVERAL}NAME for a component" if name == "log_q" else ""
            hint = f"Rename one to {name}, {others}" if others else "Pass the name of another as f"
            title = f if name == "f" else name
            raise ValueError(f"{title}: the table has no such column. {hint}")
    draws, called, counts = _draws(
        columns["log_joint"], columns["log_q"], columns["f"], columns.get("component"), log_E2
    )
    if f_max is not None:
        low, high = float(draws.f.min()), float(draws.f.max())
        expected = f"a number of at least {high:g}, and f >= 0 (here {low:g} or more)"
        f_max = check_number("f_max", f_max, expected, lambda v: low >= 0 and v >= high)
        draws = replace(draws, f_max=f_max)
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
                requirements=Requirements(against=against, r_eff=share),
            )
    if not estimates:
        raise ValueError(
            f"component: no estimator has draws for its terms: {'; '.join(missing.values())}"
        )
    return TableDiagnosis(estimates, missing, counts)


def is_column(name: str, f: str = "f") -> bool:
    """Whether `diagnose(table, f=f)` reads the column of that name."""
    known = {f, "log_joint", "log_q", "component", "log_weight", *sum(CALLED.values(), ())}
    return name.strip() in known or name.strip().startswith(SEVERAL)


def _columns_of(table: Any) -> dict[str, Any]:
    """The columns of what was given: a mapping, a data frame, groups of columns, or nothing."""
    if table is None:
        return {}
    if hasattr(table, "columns"):  # of pandas or polars
        return {str(name): np.asarray(table[name]) for name in table.columns}
    if not isinstance(table, Mapping):
        if not hasattr(table, "to_dict"):
            raise ValueError(
                "table: expected a mapping of columns, a data frame or an InferenceData, "
                f"got {type(table).__name__}"
            )
        table = table.to_dict()
    columns: dict[str, Any] = {}
    for name, column in table.items():
        if isinstance(column, Mapping) and name != "log_q":
            columns = _columns_of(column) | columns  # a group: the first of a name counts
        else:
            columns[str(name)] = column
    first = [np.ravel(columns.get(name, 1))[:1].any() for name in ("log_p__", "log_g__")]
    if not any(first):
        # The first row of Stan's variational approximations has their mean, and no densities.
        return {name: column[1:] for name, column in columns.items()}
    return columns


def _draws(
    log_joint: ArrayLike,
    log_q: ArrayLike | Mapping[str, ArrayLike],
    f: ArrayLike,
    component: ArrayLike | None,
    log_E2: float | None,
) -> tuple[Draws, tuple[str, ...], dict[str, int]]:
    """Draws, the names of the components in the proposals' places, and numbers of draws."""
    shape = np.shape(log_joint)
    log_joint, f = _column("log_joint", log_joint, shape), _column("f", f, shape)
    n = len(f)
    if n > MAX_ROWS:
        raise ValueError(f"log_joint: expected at most {MAX_ROWS:,} draws, got {n:,}")
    there = log_joint > -np.inf
    _check("log_joint", log_joint, ~(log_joint < np.inf), "numbers below infinity")
    _check("f", f, there & ~np.isfinite(f), "finite numbers where the density is not zero")
    if not there.any():
        raise ValueError("log_joint: expected a density above zero somewhere, got -inf everywhere")
    names = None if component is None else np.ravel(component).astype(str)
    if not isinstance(log_q, Mapping):
        log_q = {"q" if names is None else str(names[0]): log_q}
    if names is None:
        if len(log_q) > 1:
            raise ValueError("component: expected the component of each draw, got None")
        names = np.full(n, next(iter(log_q)))
    if names.shape != (n,) or set(names) != set(log_q):
        raise ValueError(
            f"component: expected one of {', '.join(log_q)} for each of {n:,} draws, and draws of "
            f"each, got {', '.join(sorted(set(names)))} for {len(names):,}"
        )
    if len(log_q) > 1 and not set(log_q) <= set(COMPONENTS):
        raise ValueError(
            f"log_q: expected names among {', '.join(COMPONENTS)}, got {', '.join(log_q)}"
        )
    # A single component of another name counts as q2.
    slots = {COMPONENTS.index(k if k in COMPONENTS else "q2"): k for k in log_q}
    slots = dict(sorted(slots.items()))
    densities = {}
    for j, name in slots.items():
        title = f"log_q of {name}" if len(slots) > 1 else "log_q"
        densities[j] = _column(title, log_q[name], shape)
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


def _column(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """A column of numbers in a row, of an array of that shape."""
    column = np.asarray(values)
    try:
        if column.dtype.kind in "USO":
            # Python reads 1_000 as 1000, where a file means something else.
            odd = [each for each in column.ravel().tolist() if "_" in str(each)]
            if odd:
                raise ValueError(f"could not convert string to float: {odd[0]!r}")
            # Of a list, the message names an entry as it is.
            column = np.array(column.tolist(), dtype=np.float64)
        column = column.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected numbers: {error}") from None
    if column.shape == shape and column.size < 2:
        raise ValueError(f"{name}: expected two draws or more, got {column.size}")
    if column.shape != shape:
        rows = f"{math.prod(shape):,} numbers"
        of = "in a row" if len(shape) < 2 else f"of shape {shape}"
        raise ValueError(f"{name}: expected {rows} {of}, got {column.shape}")
    return column.ravel()


def _check(name: str, column: Array, bad: NDArray[np.bool_], expected: str) -> None:
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"{name}: expected {expected}, got {column[at]} at draw {at + 1:,}")


def _dependence(draws: Draws) -> Iterator[str]:
    """Why the rows that carry an estimate are not independent draws, in sentences."""
    shares = _shares(draws)
    heavy = shares.max(axis=0) >= NEGLIGIBLE / draws.n
    shares = shares[:, heavy]
    densities = {"log_joint": draws.log_joint[heavy]}
    densities |= {f"log_q of {COMPONENTS[j]}": q[heavy] for j, q in draws.log_q.items()}
    for name, values in densities.items():
        if _in_steps(values):
            yield (
                f"{name} comes in steps of {STEP:g} nats or more: its numbers were rounded, as "
                "large ones are in single precision; subtract a constant before they are saved"
            )
    f = draws.f[heavy]
    rows = np.stack([f, *densities.values()])
    _, inverse, counts = np.unique(rows, axis=1, return_inverse=True, return_counts=True)
    again = 1 - 1 / counts[inverse.ravel()]
    # Where numbers take few values, ties say nothing.
    by_chance = [
        shares @ _chance_copies(row, zeros=row is f)
        for row in (f, *densities.values())
        if len(np.unique(row)) > FEW_VALUES
    ]
    if by_chance and (shares @ again > COPIES + np.min(by_chance, axis=0)).any():
        yield (
            f"{rows.shape[1] - len(counts):,} of {draws.n:,} rows are copies of others, as after "
            "resampling, for a discrete x or where a file was not filled: they are not "
            f"independent draws, and carry {(shares @ again).max():.0%} of a term"
        )
    for j in draws.counts:
        part = draws.stretch(j)
        columns = [draws.f[part], draws.log_joint[part], draws.log_weight(j)]
        ranks = rankdata(np.stack(columns)[:, heavy[part]], axis=-1)
        n = ranks.shape[-1]
        if n <= CORRELATED**2:
            continue
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


def _shares(draws: Draws) -> Array:
    """The share of each row in the terms of 1 and |f|, those that are not zero, (2, n)."""
    log_w = draws.log_joint - pooled(draws).log_mixture
    with np.errstate(divide="ignore"):
        sums = [log_w, log_w + np.log(np.abs(draws.f))]
    return np.stack([softmax(log_t) for log_t in sums if log_t.max() > -np.inf])


def _in_steps(values: Array) -> bool:
    """Whether all values are multiples of a tenth or an eighth: what is left of large numbers.

    Such values nearer to zero than to one another can be counts, of penalties for example.
    """
    finite = np.unique(values[np.isfinite(values)])
    inverses = (1 / STEP, 2.0 ** math.floor(-math.log2(STEP)))
    return (
        len(finite) > 1
        and bool(np.abs(finite).min() > np.ptp(finite))
        and any(bool((np.abs(finite * k - np.rint(finite * k)) < 1e-6).all()) for k in inverses)
    )


def _chance_copies(values: Array, *, zeros: bool) -> Array:
    """How probably each number equals another because all are rounded, or many are zero, (n,).

    Where all have d significant digits, or d decimals, those of each stretch of the sorted numbers
    fall into cells of one unit of the last digit; n of them into C cells leave
    C (1 - (1 - 1 / C)^n) apart.

    Arguments:
        values: The numbers, (n,).
        zeros: Whether zeros are copies by chance, as those of an f with a bounded support.
    """
    size = np.abs(values)
    order = np.argsort(size)[int((size == 0).sum()) : int(np.isfinite(size).sum())]
    v, chance = size[order], np.zeros(len(order))
    leading = np.floor(np.log10(v))
    ends = np.append(np.arange(0, len(v), STRETCH), len(v))
    n = np.diff(ends)
    # Of significant digits, then of decimals.
    for last in (leading + 1, np.zeros_like(v)):
        units = (10.0 ** (last - digits) for digits in DIGITS)
        rounded = (u for u in units if (np.abs(v / u - np.rint(v / u)) < 1e-4).all())
        if (unit := next(rounded, None)) is not None:
            place = np.append(0.0, np.cumsum(np.diff(v) / unit[1:]))
            cells = np.maximum(place[ends[1:] - 1] - place[ends[:-1]], 1.0) + 1
            copies = n + cells * np.expm1(n * np.log1p(-1 / cells))
            chance = np.maximum(chance, np.repeat(copies / n, n))
    probable = np.where((size == 0) & zeros, 1.0, 0.0)
    probable[order] = chance
    return probable


def _prepared(name: str, draws: Draws) -> Prepared | str:
    """What the estimator of that name makes of the draws, or what they lack, in words."""
    if name == "snis":
        if draws.count(2):
            return Tabled(tables.snis_q2()).apply(draws)
        if draws.present == (0,):
            return Tabled(tables.snis_q1()).apply(draws)
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
        return resolve("amci-cv").apply(draws)
    table = tables.amci()
    table[0, 0], table[2, 2] = draws.count(0) > 0, draws.log_E2 is None
    return Tabled(table).apply(draws)

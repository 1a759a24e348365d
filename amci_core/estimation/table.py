r"""Estimates from draws made elsewhere: by PyMC, Stan, sbi or your own program.

An estimator sees numbers alone (`Draws`): f, log p(x, y) and the log density of every component
at every draw. A table with these columns needs neither a problem nor a flow.
"""

from __future__ import annotations

__all__ = ["TableEstimates", "estimate_from_draws"]

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from scipy.stats import rankdata

from amci_core._arguments import check_number, check_numbers
from amci_core.diagnostics import Verdict
from amci_core.diagnostics.verdict import Requirements
from amci_core.estimation.result import Estimate
from amci_core.estimators import resolve
from amci_core.estimators.base import Prepared
from amci_core.estimators.draws import COMPLEMENT, COMPONENTS, PROPOSALS, Array, Draws, log
from amci_core.estimators.estimators import balanced
from amci_core.estimators.mis import pooled

# What a table of draws can be estimated by, the most exact first: each term from all draws; each
# from its own proposal; all from the mixture of all draws; all from q2 alone.
ESTIMATES = ("amci-cv", "amci", "snis-qm", "snis-q2")
# Other names of columns: of Stan's variational approximations and Pathfinder, and of PyMC.
ALIASES = {"log_joint": ("log_p__", "lp__", "lp"), "log_q": ("log_g__", "lp_approx__")}
# Columns of the densities of several components begin so.
SEVERAL = "log_q_"
# Rows that are copies of others are no independent draws from this share of a term on, where there
# are more than a few different ones.
COPIES, FEW_VALUES = 0.1, 20
# Densities in such steps, in nats, are rounded.
STEP = 0.1
# Rows with less than this part of the average row's share in every term do not count.
NEGLIGIBLE = 1e-3
# Rows within so many of one another are correlated beyond so many standard deviations.
LAGS, CORRELATED = 64, 5.0


@dataclass(frozen=True, repr=False)
class TableEstimates:
    """Estimates of mu from a table of draws.

    Arguments:
        estimates: For the names of `ESTIMATES` that the table can give, the estimate with its
            standard error, interval, diagnostics of each term and verdict.
        missing: For the others, what they lack, in words.
        counts: Number of draws of every component, by its name.
    """

    estimates: Mapping[str, Estimate]
    missing: Mapping[str, str]
    counts: Mapping[str, int]

    @property
    def name(self) -> str:
        """The first of `ESTIMATES` that the table gives."""
        return next(name for name in ESTIMATES if name in self.estimates)

    @property
    def estimate(self) -> Estimate:
        """The estimate of that name."""
        return self.estimates[self.name]

    @property
    def value(self) -> Array:
        """Its mu, in units of f."""
        return self.estimate.value

    @property
    def standard_error(self) -> Array:
        """Its standard error, in units of f."""
        return self.estimate.standard_error

    @property
    def verdict(self) -> Verdict:
        """Its verdict."""
        return self.estimate.verdict

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Its central interval of that level, lower and upper end, in units of f."""
        return self.estimate.interval(level)

    def __repr__(self) -> str:
        draws = ", ".join(f"{n:,} of {name}" for name, n in self.counts.items())
        return f"{self.name} from draws: {draws}\n{self.estimate}"

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain values, for JSON."""
        return {
            "draws": dict(self.counts),
            "estimates": {name: e.as_dict() for name, e in self.estimates.items()},
            "missing": dict(self.missing),
        }


def estimate_from_draws(
    table: Any,
    *,
    f: str | ArrayLike = "f",
    log_E2: float | None = None,
    r_eff: float | None = None,
) -> TableEstimates:
    """Estimates mu = E[f] from a table of n independent draws, with a verdict.

    Nothing is drawn: the same table gives the same numbers. Where f >= 0 at all draws, f is taken
    to be so everywhere.

    Arguments:
        table: A mapping of columns, a data frame or an InferenceData. Columns may have any shape,
            such as (chains, draws), the same for all.

            - `log_joint`: log p(x, y) in nats; -inf where the density is zero. With a single
              component it may lack a constant. Also Stan's `log_p__` or `lp__`, PyMC's `lp`.
            - `log_q`: log density in nats of the only component. Also Stan's `log_g__` or
              `lp_approx__`. Of several components `log_q_q1_plus`, `log_q_q1_minus`, `log_q_q2`
              and `log_q_defensive`, each at all draws; the last one, of a broad density, shows
              what the others miss.
            - `component`: which component each draw came from; a single one is `q2` without it.
            - `log_weight`: log_joint - log_q, instead of both.
            - `log_E2`, `f_max`: the known log evidence in nats; M of an f in [0, M], of which
              `q1_complement` then may be a component. Their first number counts.
        f: f at every draw, in units of f, or the name of its column; any number where the density
            is zero.
        log_E2: log E2 in nats, if it is known.
        r_eff: Effective number of independent draws over n, in (0, 1], for dependent ones such as
            a Markov chain's (ArviZ: `ess / n`). Standard errors then count so many draws.

    Returns:
        `TableEstimates`: AMCI, with control variates and without, if there are draws for each of
        its terms; SNIS with the mixture of several components; SNIS with q2 or the only one.

    Raises:
        ValueError: a column is missing, of another shape, or NaN or infinite where it must not be;
            a component is unknown; or there is nothing to estimate with.

    Warning:
        Rows must be independent draws, in the order in which they were drawn. Copies of rows and
        correlated rows are refused as "do not trust", unless `r_eff` is given. No diagnostic sees
        mass that no draw reached.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(0.0, 1.5, 2000)  # for E[x^2] under N(0, 1)
        >>> log_q = -np.square(x / 1.5) / 2 - np.log(1.5 * np.sqrt(2 * np.pi))
        >>> columns = {"log_joint": -np.square(x) / 2, "log_q": log_q}
        >>> estimates = estimate_from_draws(columns, f=np.square(x))
        >>> estimates.name, str(estimates.verdict.level), bool(abs(estimates.value - 1) < 0.1)
        ('snis-q2', 'reliable', True)

    See also:
        `amci diagnose table.csv` for the command line.
    """
    columns = _columns_of(table)
    if isinstance(f, str) and f not in columns:
        raise ValueError(f"f: the table has no column {f!r}. Name another, or rename one to f")
    columns["f"] = columns[f] if isinstance(f, str) else f
    constants = filter(columns.__contains__, ("log_E2", "f_max"))
    known: dict[str, Any] = {name: float(np.ravel(columns[name])[0]) for name in constants}
    draws = _draws(columns, known | ({} if log_E2 is None else {"log_E2": log_E2}))
    if r_eff is None:
        requirements = Requirements(against=tuple(_dependence(draws)))
    else:
        expected = "a number above 0, at most 1"
        r_eff = check_number("r_eff", r_eff, expected, lambda v: 0 < v <= 1)
        requirements = Requirements(r_eff=r_eff)
    estimates, missing = {}, {}
    for name in ESTIMATES:
        prepared = _prepared(name, draws)
        if isinstance(prepared, str):
            missing[name] = prepared
        else:
            estimates[name] = Estimate(prepared, not draws.signed, requirements=requirements)
    if not estimates:
        reasons = "; ".join(missing.values())
        raise ValueError(f"component: no estimator has draws for its terms: {reasons}")
    return TableEstimates(estimates, missing, {COMPONENTS[j]: n for j, n in draws.counts.items()})


def _columns_of(table: Any) -> dict[str, Any]:
    """The columns of a mapping, of a data frame, or of the groups of an InferenceData."""
    if hasattr(table, "columns"):
        table = {name: np.asarray(table[name]) for name in table.columns}
    elif not isinstance(table, Mapping):
        if not hasattr(table, "to_dict"):
            raise ValueError(
                "table: expected a mapping of columns, a data frame or an InferenceData, "
                f"got {type(table).__name__}"
            )
        table = table.to_dict()
    columns: dict[str, Any] = {}
    # Of `Estimate.to_arviz` those of the posterior are other draws.
    for name, column in sorted(table.items(), key=lambda item: item[0] != "weighted_draws"):
        if isinstance(column, Mapping):
            columns = _columns_of(column) | columns  # a group: the first of a name counts
        else:
            columns[str(name)] = column
    for name, others in ALIASES.items():
        for other in filter(columns.__contains__, others):
            columns.setdefault(name, columns[other])
    first = [np.ravel(columns.get(name, 1.0))[:1] for name in ("log_p__", "log_g__")]
    if np.concatenate(first).tolist() == [0.0, 0.0]:
        # The first row of Stan's variational approximations has their mean, and no densities.
        return {name: column[1:] for name, column in columns.items()}
    return columns


def _draws(columns: Mapping[str, Any], known: Mapping[str, Any]) -> Draws:
    """The draws in the order of their components; a single one counts as q2."""
    names = COMPONENTS if "f_max" in known else COMPONENTS[:COMPLEMENT]
    component = np.ravel(columns.get("component", [])).astype(str)
    titles = {key.removeprefix(SEVERAL): key for key in columns if key.startswith(SEVERAL)}
    if titles and "log_q" in columns:
        raise ValueError(f"log_q: expected log_q, or {SEVERAL}NAME of each component, got both")
    if not titles:
        titles = {str(component[0]) if component.size else "q2": "log_q"}
        if "log_weight" in columns and not {"log_joint", "log_q"} <= columns.keys():
            log_weight = columns["log_weight"]
            columns = {**columns, "log_joint": log_weight, "log_q": np.zeros(np.shape(log_weight))}
    shape = np.shape(columns.get("log_joint", 0.0))
    log_joint, f = (_numbers(name, columns.get(name), shape) for name in ("log_joint", "f"))
    densities = {name: _numbers(key, columns.get(key), shape) for name, key in titles.items()}
    if not component.size and len(titles) == 1:
        component = np.full(f.shape, next(iter(titles)))
    if component.shape != f.shape or not set(component) == set(densities) <= set(names):
        raise ValueError(
            f"component: expected one of {', '.join(names)} for each of {len(f):,} draws, with "
            f"log_q_NAME and draws of each, got {', '.join(sorted(set(component)))} for "
            f"{len(component):,}, and log_q of {', '.join(densities)}"
        )
    met = log_joint > -np.inf
    _refuse("log_joint", log_joint, ~(log_joint < np.inf), "numbers below infinity")
    _refuse("log_joint", log_joint, np.full(f.shape, not met.any()), "a density above zero")
    _refuse("f", f, met & ~np.isfinite(f), "finite numbers where the density is not zero")
    for name, density in densities.items():
        impossible = (component == name) & (density == -np.inf)
        _refuse(titles[name], density, ~(density < np.inf), "numbers below infinity")
        _refuse(titles[name], density, impossible, "finite numbers at its own draws")
    f = np.where(met, f, 0.0)
    order = np.concatenate([np.flatnonzero(component == name) for name in densities])
    return Draws(
        f=f[order],
        log_joint=log_joint[order],
        log_q={COMPONENTS.index(name): density[order] for name, density in densities.items()},
        counts={COMPONENTS.index(name): int((component == name).sum()) for name in densities},
        signed=bool((f < 0).any()),
        log_E2=np.asarray(check_number("log_E2", known["log_E2"])) if "log_E2" in known else None,
        f_max=known.get("f_max"),
    )


def _numbers(name: str, values: Any, shape: tuple[int, ...]) -> Array:
    if values is None:
        others = f", log_weight, {', '.join(ALIASES[name])}" if name in ALIASES else ""
        raise ValueError(f"{name}: the table has no such column. Rename one to {name}{others}")
    column = check_numbers(name, values)
    if column.shape != shape or column.size < 2:
        expected = f"two numbers or more, of shape {shape} as log_joint"
        raise ValueError(f"{name}: expected {expected}, got {column.shape}")
    return column.ravel()


def _refuse(name: str, column: Array, bad: NDArray[np.bool_], expected: str) -> None:
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"{name}: expected {expected}, got {column[at]} at draw {at + 1:,}")


def _dependence(draws: Draws) -> Iterator[str]:
    """Why the rows that carry an estimate are not independent draws, in sentences."""
    log_w = draws.log_joint - pooled(draws).log_mixture
    terms = [log_w, log_w + log(np.abs(draws.f))]
    shares = np.stack([softmax(log_t) for log_t in terms if log_t.max() > -np.inf])
    heavy = shares.max(axis=0) >= NEGLIGIBLE / draws.n
    rows = np.stack([draws.f, draws.log_joint, *draws.log_q.values()])
    densities = rows[1:, heavy]
    single = np.float32(densities)
    if ((densities == single).all(1) & (np.spacing(np.abs(single).min(1)) > STEP)).any():
        yield (
            f"a density comes in steps of {STEP:g} nats or more: its numbers were rounded, as "
            "large ones are in single precision; subtract a constant before they are saved"
        )
    _, inverse, counts = np.unique(rows, axis=1, return_inverse=True, return_counts=True)
    share = (shares @ (1 - 1 / counts[inverse.ravel()])).max()
    # Where rows take few values, ties say nothing.
    if len(counts) > FEW_VALUES and share > COPIES:
        yield (
            f"{draws.n - len(counts):,} of {draws.n:,} rows are copies of others, as after "
            "resampling, with too few digits or where a file was not filled: they are not "
            f"independent draws, and carry {share:.0%} of a term"
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


def _prepared(name: str, draws: Draws) -> Prepared | str:
    """What the estimator of that name makes of the draws, or what they lack, in words."""
    if len(draws.counts) < 2 and name in ("amci-cv", "snis-qm"):
        return "there is a single component"
    if name == "snis-qm":
        return balanced(draws, list(draws.counts))
    terms = ((draws.f > 0).any() or not draws.signed, draws.signed, draws.log_E2 is None)
    needed = (False, False, True) if name == "snis-q2" else terms
    lacking = [PROPOSALS[j] for j in range(3) if needed[j] and not draws.count(j)]
    if lacking:
        return f"there are no draws of {' and '.join(lacking)}"
    return resolve(name).apply(draws)

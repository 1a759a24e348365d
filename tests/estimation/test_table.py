"""Estimates from tables of draws made elsewhere."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats
from imperfect import imperfect
from scipy.signal import lfilter
from scipy.stats import norm
from scipy.stats import t as student

import amci_core as amci
from amci_core.estimators.draws import COMPONENTS


def table_of(draws):
    """The columns of our own draws."""
    densities = {f"log_q_{COMPONENTS[j]}": q for j, q in draws.log_q.items()}
    names = [COMPONENTS[j] for j in draws.counts]
    component = np.repeat(names, list(draws.counts.values()))
    return {"log_joint": draws.log_joint, "f": draws.f, "component": component, **densities}


OURS = {
    "tail-1d": (imperfect(), 1.0, 1.5),
    "gain-loss": (amci.load_proposals("gain-loss"), 1.0, 0.4),
}


@pytest.mark.parametrize("name", OURS)
def test_a_table_of_our_own_draws_gives_our_own_estimate(name):
    e = amci.estimate(name, *OURS[name], draws=300, seed=2)
    found = amci.estimate_from_draws(table_of(e.prepared.draws))
    assert found.name == "amci-cv"
    assert found.counts["defensive"] == e.prepared.draws.count(3)
    np.testing.assert_allclose(found.value, e.value, rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, e.standard_error, rtol=1e-9)
    np.testing.assert_allclose(found.interval(), e.interval(), rtol=1e-9)
    np.testing.assert_allclose(found.verdict.determined_by, e.verdict.determined_by, rtol=1e-9)
    for term, seen in found.estimate.diagnostics.items():
        np.testing.assert_allclose(seen.pareto_k, e.diagnostics[term].pareto_k, rtol=1e-7)
    assert found.estimate.draws == e.draws


def one_component(scale=1.5, n=4000, seed=0):
    """Draws of N(0, scale^2), for E[x^2] = 1 under N(0, 1) known up to a constant."""
    x = np.random.default_rng(seed).normal(0.0, scale, n)
    return {
        "log_joint": -np.square(x) / 2 + 700.0,
        "log_q": norm.logpdf(x, 0, scale),
        "f": np.square(x),
    }


def two_components(n=3000, f=lambda x: (x > 2).astype(float), seed=1):
    """Draws near a tail and draws of the posterior N(0, 1)."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([2 + rng.exponential(0.5, n), rng.normal(0.0, 1.1, n // 2)])
    with np.errstate(divide="ignore"):
        log_q1 = np.where(x > 2, math.log(2) - 2 * (x - 2), -np.inf)
    return {
        "log_joint": norm.logpdf(x) - 3.0,
        "log_q_q1_plus": log_q1,
        "log_q_q2": norm.logpdf(x, 0, 1.1),
        "f": f(x),
        "component": ["q1_plus"] * n + ["q2"] * (n // 2),
    }


def test_one_component_is_self_normalized_importance_sampling():
    table = one_component()
    found = amci.estimate_from_draws(table)
    log_w = table["log_joint"] - table["log_q"]
    w = np.exp(log_w - log_w.max())
    mu = np.average(table["f"], weights=w)
    error = np.sqrt(np.sum(np.square(w * (table["f"] - mu)))) / w.sum()
    assert found.name == "snis-q2"
    assert found.missing.keys() == {"amci-cv", "amci", "snis-qm"}
    np.testing.assert_allclose(found.value, mu, rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-3)
    term = found.estimate.diagnostics["E2"]
    np.testing.assert_allclose(term.ess, w.sum() ** 2 / np.square(w).sum())
    np.testing.assert_allclose(term.pareto_k, array_stats.psislw(-log_w, r_eff=1.0)[1])
    assert found.verdict.level == "reliable"
    assert repr(found).startswith("snis-q2 from draws: 4,000 of q2\nmu = ")


def test_the_mixture_weights_all_draws_by_the_balance_heuristic():
    table = two_components()
    found = amci.estimate_from_draws(table)
    q = np.exp(table["log_q_q1_plus"]) * 2 / 3 + np.exp(table["log_q_q2"]) / 3
    w = np.exp(table["log_joint"]) / q
    mixture = found.estimates["snis-qm"]
    np.testing.assert_allclose(mixture.value, np.average(table["f"], weights=w), rtol=1e-12)
    assert found.counts == {"q1_plus": 3000, "q2": 1500}
    for e in found.estimates.values():
        assert abs(e.value - norm.sf(2)) < 5 * e.standard_error
    errors = {name: float(e.standard_error) for name, e in found.estimates.items()}
    assert errors["amci"] < errors["snis-qm"] < errors["snis-q2"]


def test_estimators_without_draws_for_a_term_are_missing():
    signed = amci.estimate_from_draws(two_components(f=lambda x: x - 2))
    assert signed.name == "snis-qm"
    assert signed.missing == dict.fromkeys(("amci-cv", "amci"), "there are no draws of q1_minus")
    assert abs(signed.value + 2) < 5 * signed.standard_error
    table = two_components()
    # Of several components log_weight says nothing.
    more = table | {"log_weight": table["log_joint"] - table["log_q_q2"]}
    assert amci.estimate_from_draws(more).value == amci.estimate_from_draws(table).value
    known = amci.estimate_from_draws(table, log_E2=-3.0)
    np.testing.assert_allclose(known.value, norm.sf(2), rtol=0.05)
    assert known.standard_error < amci.estimate_from_draws(table).standard_error


def changed(**values):
    return two_components() | values


def spoilt(name, value):
    column = np.array(two_components()[name])
    column[7] = value
    return changed(**{name: column})


N = 4500
WRONG = {
    r"f: expected two numbers or more, of shape \(4500,\) as log_joint, got \(3,\)": changed(
        f=[1, 2, 3]
    ),
    "f: expected finite numbers where the density is not zero, got nan at draw 8": spoilt(
        "f", np.nan
    ),
    "f: expected numbers: could not convert string to float: 'many'": changed(f=["many"] * N),
    "f: the table has no column 'f'": {"log_weight": [0.0, 1.0]},
    "f: expected numbers: got datetime64": changed(f=np.full(N, "2020-01-01", "datetime64[D]")),
    "log_joint: expected numbers: int too large": changed(log_joint=[10**400] * N),
    "log_q: expected log_q, or log_q_NAME of each component, got both": changed(log_q=[0.0] * N),
    "component: .* got q1_plus, q2 for 4,500, and log_q of q1_plus": {
        name: column
        for name, column in changed(log_q=[0.0] * N).items()
        if not name.startswith("log_q_")
    },
    "log_joint: expected two numbers or more": {"log_p__": [], "log_g__": [], "f": []},
    "log_q: the table has no such column. Rename one to log_q, log_weight, log_g__": {
        "lp__": [0.0, 1.0],
        "f": [0.0, 1.0],
    },
    "log_joint: the table has no such column": {"log_g__": [0.0, 1.0], "f": [0.0, 1.0]},
    "log_joint: expected numbers below infinity, got nan at draw 8": spoilt("log_joint", np.nan),
    "log_joint: expected a density above zero, got -inf": changed(log_joint=np.full(N, -np.inf)),
    "log_q_q2: expected numbers below infinity, got nan": spoilt("log_q_q2", np.nan),
    "log_q_q1_plus: expected finite numbers at its own draws, got -inf at draw 8": spoilt(
        "log_q_q1_plus", -np.inf
    ),
    "component: expected one of q1_plus, q1_minus, q2, defensive for each of 4,500": changed(
        component=["q2"] * N
    ),
    "component: expected one of .* got best, q2 for 4,500": changed(
        component=["best"] * 3000 + ["q2"] * 1500
    ),
    "table: expected a mapping of columns": 3.0,
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_with_a_table_is_said(message):
    with pytest.raises(ValueError, match=f"^{message}"):
        amci.estimate_from_draws(WRONG[message])


def test_chains_frames_groups_and_names_of_others_are_read():
    flat = one_component()
    expected = amci.estimate_from_draws(flat)
    chains = {name: np.reshape(column, (4, -1)) for name, column in flat.items()}
    groups = {
        "posterior": {"f": chains["f"]},
        "sample_stats": {"lp": chains["log_joint"], "log_q": chains["log_q"], "f": None},
        "sample_stats_attrs": {"library": "mine"},
    }

    class InferenceData:
        def to_dict(self):
            return groups

    pathfinder = {"lp_approx__": flat["log_q"], "lp__": flat["log_joint"], "x.1": flat["f"]}
    # A variational approximation of Stan has its mean in the first row.
    first = {"log_p__": 0.0, "log_g__": 0.0, "lp__": 0.0, "x.1": 0.3}
    of_stan = {"log_p__": flat["log_joint"], "log_g__": flat["log_q"]}
    of_stan |= {"lp__": 0 * flat["f"], "x.1": flat["f"]}
    of_stan = {name: np.append(first[name], column) for name, column in of_stan.items()}
    tables = [
        (chains, "f"),
        (pd.DataFrame(flat), "f"),
        (groups, "f"),
        (InferenceData(), "f"),
        (pathfinder, "x.1"),
        (of_stan, "x.1"),
        ({name: flat[name] for name in ("log_joint", "log_q")}, flat["f"]),
    ]
    for table, f in tables:
        found = amci.estimate_from_draws(table, f=f)
        assert found.value == expected.value
        assert found.verdict.text == expected.verdict.text
    weights = {"log_weight": flat["log_joint"] - flat["log_q"], "f": flat["f"]}
    found = amci.estimate_from_draws(weights)
    assert found.value == pytest.approx(expected.value, rel=1e-12)


def rounded(table):
    return {name: [float(f"{value:.6g}") for value in column] for name, column in table.items()}


def again(table):
    """As many rows, drawn from those of a table."""
    rows = np.random.default_rng(1).integers(len(table["f"]), size=len(table["f"]))
    return {name: np.array(column)[rows] for name, column in table.items()}


def with_copies(log_joint):
    """A table with 40 equal rows."""
    row = {"log_joint": log_joint, "log_q": 0.0, "f": 1.0}
    return {n: np.append(column, [row[n]] * 40) for n, column in one_component().items()}


X, MANY = np.random.default_rng(0).normal(size=4000), rounded(one_component(n=20_000))
SEEN = {
    "a density of few values": ({"log_weight": -1.0 * (X > 0.3), "f": X}, "reliable"),
    "an event": ({"log_weight": np.zeros(200), "f": 1.0 * (X[:200] < -0.5)}, "reliable"),
    "six digits": (MANY, "reliable"),
    "drawn again": (again(MANY), "do not trust: .* are copies of others"),
    "single precision": (
        (table := one_component()) | {"log_joint": np.float32(table["log_joint"] - 1e8)},
        "do not trust: .* in single precision",
    ),
    "heavy copies": (with_copies(4000.0), "do not trust: 39 of 4,040 rows .* copies of others"),
    "light copies": (with_copies(-1e4), "reliable"),
}


@pytest.mark.parametrize("kind", SEEN)
def test_copies_and_roundings_are_seen_where_they_matter(kind):
    table, said = SEEN[kind]
    found = amci.estimate_from_draws(table)
    assert re.match(said, found.verdict.text)
    log_w = table.get("log_weight")
    if log_w is None:
        log_w = np.subtract(table["log_joint"], table["log_q"], dtype=float)
    expected = np.average(table["f"], weights=np.exp(log_w - np.max(log_w)))
    # Log densities of 1e8 nats are known to 1e-8.
    np.testing.assert_allclose(found.value, expected, rtol=1e-6)


def test_one_row_that_outweighs_all_others_tells_no_error():
    log_weight, f = X[:200].copy(), X[200:400]
    log_weight[7] = log_weight.max() + 10
    found = amci.estimate_from_draws({"log_weight": log_weight, "f": f})
    assert found.value == pytest.approx(f[7], abs=1e-2)
    assert np.isnan(found.standard_error)
    assert found.verdict.level == "use more draws"
    assert "of its own draws determine its error" in str(found.verdict)


# What rows, by their log weights, and columns, of which q is a density's, may have gone through.
ROWS = {
    "as drawn": lambda log_w, rng: np.arange(len(log_w)),
    "copied": lambda log_w, rng: rng.integers(len(log_w), size=len(log_w)),
    "sorted": lambda log_w, rng: np.argsort(log_w),
    "thinned": lambda log_w, rng: np.arange(0, len(log_w), 3),
    "selected": lambda log_w, rng: np.flatnonzero(log_w <= np.quantile(log_w, 0.9)),
}
COLUMNS = {
    "as computed": lambda t, q, rng: {},
    "rounded": lambda t, q, rng: {q: t[q].round(1)},
    "moved": lambda t, q, rng: {k: t[k] + rng.choice([-99.0, 0.5, 1.0]) for k in (q, "log_joint")},
    "spoilt": lambda t, q, rng: {q: np.where(t["f"] == max(t["f"]), rng.choice(SPOILT), t[q])},
    "swapped": lambda t, q, rng: {"f": t[q], q: t["f"]},
    "clipped": lambda t, q, rng: {"log_joint": t[q] + (t["log_joint"] - t[q]).clip(max=0)},
}
# No draw can tell of the first; they are refused or judged, no more.
SILENT, SPOILT = {"selected", "swapped", "clipped"}, [np.nan, np.inf, -np.inf]


def random_table(rng, rows, columns):
    """Draws for E[f] under N(-d, 1) / 2 + N(d, 1) / 2, from proposals good and poor, and mu."""
    d, c, n = rng.choice([0.0, 3.0]), rng.choice([0.0, 1.0, 2.0]), int(rng.integers(50, 1500))
    q2 = [norm(0, d + 1.2), norm(0, 0.6), norm(d + 0.7), norm(d, 1.2), student(3), norm(0, 30)]
    parts = {"q2": rng.choice(q2), "defensive": norm(0, 2 + 2 * d)}
    parts["q1_plus"] = norm(c + d + 0.3, rng.choice([0.3, 0.8]))
    # A missed mode is seen by the defensive density alone.
    needed = {"q2", "defensive"} if d else {"q2"}
    q = {k: part for k, part in parts.items() if k in needed or rng.random() < 0.5}
    correlation = rng.choice([0.0, 0.0, 0.9])
    z = lfilter([(1 - correlation**2) ** 0.5], [1, -correlation], rng.normal(size=(len(q), n)))
    x = np.concatenate([part.ppf(norm.cdf(row)) for part, row in zip(q.values(), z, strict=True)])
    tail = (norm.sf(c - d) + norm.sf(c + d)) / 2
    f, mu = [((x > c) * 1.0, tail), (x**2, 1 + d**2), (x, 0.0)][rng.integers(3)]
    log_joint = np.logaddexp(norm.logpdf(x, -d), norm.logpdf(x, d)) - math.log(2)
    table = {"f": f, "log_joint": log_joint, "component": np.repeat([*q], n)}
    table |= {f"log_q_{name}": part.logpdf(x) for name, part in q.items()}
    chosen = ROWS[rows](log_joint - table["log_q_q2"], rng)
    table |= COLUMNS[columns](table, f"log_q_{rng.choice([*q])}", rng)
    return {name: column[chosen] for name, column in table.items()}, mu


@pytest.mark.slow
def test_tables_made_to_look_good_are_refused_or_judged_rightly():
    rng, off, refused = np.random.default_rng(0), [], []
    for _ in range(2500):
        done = rng.choice([*ROWS]), rng.choice([*COLUMNS])
        table, mu = random_table(rng, *done)
        try:
            estimates = amci.estimate_from_draws(table).estimates.values()
        except ValueError as error:
            refused.append(str(error))
            continue
        reliable = [e for e in estimates if e.verdict.level == "reliable"]
        if SILENT.isdisjoint(done):
            off += [abs(e.value - mu) > 3 * e.standard_error for e in reliable]
    assert refused
    assert not any("\n" in message for message in refused)
    # Two of a hundred, within three standard errors of a binomial share.
    assert len(off) > 300
    assert np.mean(off) < 0.02 + 3 * np.sqrt(0.02 * 0.98 / len(off))

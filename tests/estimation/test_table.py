"""Tables of draws from elsewhere: the same numbers as for draws of our own."""

import math

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats
from imperfect import imperfect
from scipy.stats import norm

import amci_core as amci
from amci_core.estimators import COMPONENTS

OWN = {
    "tail": ("tail-1d", imperfect(), 1.0, 1.5),
    "signed": ("gain-loss", amci.load_proposals("gain-loss"), 1.0, 0.4),
    "E2 known": ("peak", amci.load_proposals("peak"), None, [0.5, 0.4, 0.6]),
}


def table_of(draws):
    """The table that somebody would have of such draws, in an order of its own."""
    names = np.repeat([COMPONENTS[j] for j in draws.counts], list(draws.counts.values()))
    order = np.random.default_rng(0).permutation(draws.n)
    return {
        "log_joint": draws.log_joint[order],
        "log_q": {COMPONENTS[j]: q[order] for j, q in draws.log_q.items()},
        "f": draws.f[order],
        "component": names[order],
        "log_E2": None if draws.log_E2 is None else float(draws.log_E2),
        "f_max": draws.f_max,
    }


@pytest.mark.parametrize("case", OWN)
def test_it_says_of_draws_what_an_estimate_with_them_does(case):
    name, proposals, y, theta = OWN[case]
    e = amci.estimate(amci.problem(name), proposals, y, theta, draws=300, seed=2)
    found = amci.diagnose(**table_of(e.prepared.draws))
    assert found.name == "amci-cv"
    assert found.counts["defensive"] == e.prepared.draws.count(3)
    np.testing.assert_allclose(found.value, e.value, rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, e.standard_error, rtol=1e-9)
    np.testing.assert_allclose(found.estimate.interval(), e.interval(), rtol=1e-9)
    np.testing.assert_allclose(found.verdict.determined_by, e.verdict.determined_by, rtol=1e-9)
    assert found.estimate.diagnostics.keys() == e.diagnostics.keys()
    for term, seen in found.estimate.diagnostics.items():
        expected = e.diagnostics[term]
        for figure in ("ess", "uncovered_mass", "pareto_k", "largest_weight"):
            np.testing.assert_allclose(
                getattr(seen, figure), getattr(expected, figure), rtol=1e-7, atol=1e-15
            )
    assert found.estimate.draws == e.draws


def importance_table(scale, n=4000, seed=0):
    """Draws of N(0, scale^2), for E[x^2] = 1 under N(0, 1) known up to a constant."""
    x = np.random.default_rng(seed).normal(0.0, scale, n)
    return {
        "log_joint": -np.square(x) / 2 + 700.0,
        "log_q": norm.logpdf(x, 0, scale),
        "f": np.square(x),
    }


def test_one_component_is_self_normalized_importance_sampling():
    table = importance_table(1.5)
    found = amci.diagnose(**table)
    log_w = table["log_joint"] - table["log_q"]
    w = np.exp(log_w - log_w.max())
    mu = np.average(table["f"], weights=w)
    error = np.sqrt(np.sum(np.square(w * (table["f"] - mu)))) / w.sum()
    assert found.name == "snis"
    assert found.missing.keys() == {"amci-cv", "amci", "snis-qm"}
    np.testing.assert_allclose(found.value, mu, rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-3)
    term = found.estimate.diagnostics["E2"]
    np.testing.assert_allclose(term.ess, w.sum() ** 2 / np.square(w).sum())
    np.testing.assert_allclose(term.pareto_k, array_stats.psislw(-log_w, r_eff=1.0)[1])
    assert found.verdict.level == "reliable"
    assert abs(mu - 1) < 4 * error


def two_components(n=3000, f=lambda x: (x > 2).astype(float), seed=1):
    """Draws near a tail and draws of the posterior N(0, 1)."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([2 + rng.exponential(0.5, n), rng.normal(0.0, 1.1, n // 2)])
    with np.errstate(divide="ignore"):
        log_q1 = np.where(x > 2, math.log(2) - 2 * (x - 2), -np.inf)
    return {
        "log_joint": norm.logpdf(x) - 3.0,
        "log_q": {"q1_plus": log_q1, "q2": norm.logpdf(x, 0, 1.1)},
        "f": f(x),
        "component": ["q1_plus"] * n + ["q2"] * (n // 2),
    }


def test_the_mixture_weights_all_draws_by_the_balance_heuristic():
    table = two_components()
    found = amci.diagnose(**table)
    q = np.exp(table["log_q"]["q1_plus"]) * 2 / 3 + np.exp(table["log_q"]["q2"]) / 3
    w = np.exp(table["log_joint"]) / q
    np.testing.assert_allclose(
        found.estimates["snis-qm"].value, np.average(table["f"], weights=w), rtol=1e-12
    )
    assert found.counts == {"q1_plus": 3000, "q2": 1500}
    for e in found.estimates.values():
        assert abs(e.value - norm.sf(2)) < 5 * e.standard_error
    errors = {name: float(e.standard_error) for name, e in found.estimates.items()}
    assert errors["amci"] < errors["snis-qm"] < errors["snis"]


def test_without_draws_for_a_term_it_says_so():
    signed = amci.diagnose(**two_components(f=lambda x: x - 2))
    assert signed.name == "snis-qm"
    assert signed.missing == dict.fromkeys(("amci-cv", "amci"), "there are no draws of q1_minus")
    assert abs(signed.value + 2) < 5 * signed.standard_error
    table = two_components()
    known = amci.diagnose(**table, log_E2=-3.0)
    np.testing.assert_allclose(known.value, norm.sf(2), rtol=0.05)
    assert known.standard_error < amci.diagnose(**table).standard_error


@pytest.mark.parametrize("nats", [-5000.0, 1e8])
def test_a_constant_of_the_density_cancels(nats):
    table = two_components()
    first, again = (
        amci.diagnose(**table | {"log_joint": table["log_joint"] + constant}).estimates
        for constant in (0.0, nats)
    )
    for name, e in again.items():
        # A logarithm is known to its rounding error.
        rounding = 4 * np.finfo(float).eps * abs(nats)
        np.testing.assert_allclose(e.value, first[name].value, rtol=rounding)
        np.testing.assert_allclose(
            e.standard_error, first[name].standard_error, rtol=100 * rounding
        )
        assert e.verdict.text == first[name].verdict.text


def changed(**values):
    return two_components() | values


def spoilt(name, value, at=7):
    table = two_components()
    column = np.array(table[name] if name in table else table["log_q"][name], dtype=float)
    column[at] = value
    if name in table:
        return table | {name: column}
    return table | {"log_q": table["log_q"] | {name: column}}


N = 4500
WRONG = {
    "f: expected 4,500 numbers in a row, got (3,)": changed(f=[1, 2, 3]),
    "f: expected finite numbers where the density is not zero, got nan at draw 8": spoilt(
        "f", np.nan
    ),
    "log_joint: expected numbers below infinity, got nan at draw 8": spoilt("log_joint", np.nan),
    "log_q of q2: expected numbers below infinity, got nan": spoilt("q2", np.nan),
    "log_q of q1_plus: expected finite numbers at its own draws, got -inf at draw 8": spoilt(
        "q1_plus", -np.inf
    ),
    "component: expected one of q1_plus, q2 for each of 4,500 draws": changed(
        component=["q2"] * N
    ),
    "component: expected the component of each draw": changed(component=None),
    "log_joint: expected a density above zero somewhere": changed(log_joint=np.full(N, -np.inf)),
    "log_E2: expected a finite number, got nan": changed(log_E2=math.nan),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_with_a_table_is_said(message):
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        amci.diagnose(**WRONG[message])
    assert str(refused.value).startswith(message)


def test_arrays_of_chains_and_groups_of_variables():
    table = {name: np.reshape(column, (4, -1)) for name, column in importance_table(1.5).items()}
    expected = amci.diagnose(**importance_table(1.5))
    frame = pd.DataFrame({name: column.ravel() for name, column in table.items()})
    groups = {"posterior": {"f": table["f"]}, "sample_stats": dict(table, f=None)}
    groups["sample_stats"]["lp"] = groups["sample_stats"].pop("log_joint")
    groups["sample_stats_attrs"] = {"library": "mine"}

    class InferenceData:
        def to_dict(self):
            return groups

    named = amci.diagnose(table, f=table["f"])
    for found in (amci.diagnose(**table), named, amci.diagnose(frame), amci.diagnose(groups)):
        assert found.value == expected.value
        assert found.verdict.text == expected.verdict.text
    assert amci.diagnose(InferenceData()).value == expected.value
    with pytest.raises(ValueError, match=r"f: expected 4,000 numbers of shape \(4, 1000\)"):
        amci.diagnose(**table | {"f": table["f"].ravel()})
    with pytest.raises(
        ValueError,
        match=r"log_q: the table has no such column\. Rename one to log_q, log_weight, log_g",
    ):
        amci.diagnose({"lp__": [0.0, 1.0], "f": [0.0, 1.0]})
    with pytest.raises(ValueError, match="log_joint: the table has no such column"):
        amci.diagnose({"log_g__": [0.0, 1.0], "f": [0.0, 1.0]})
    # The weights are all that a single component needs.
    weights = table["log_joint"] - table["log_q"]
    for beside in ({}, {"lp": table["log_joint"]}, {"log_q": table["log_q"]}):
        found = amci.diagnose({"log_weight": weights, "f": table["f"]} | beside)
        assert found.value == pytest.approx(expected.value, rel=1e-12)
    with pytest.raises(ValueError, match="table: expected a mapping of columns"):
        amci.diagnose(3.0)


def rounded(values, digits):
    return np.array([float(f"{value:.{digits}g}") for value in values])


@pytest.mark.parametrize("digits", [4, 6])
def test_few_digits_are_no_copies(digits):
    table = importance_table(1.2, n=40_000)
    table["log_joint"] = rounded(table["log_joint"] - 695, digits)
    table["log_q"] = rounded(table["log_q"], digits)
    found = amci.diagnose(**table)
    assert found.verdict.level == "reliable"
    assert abs(found.value - 1) < 4 * found.standard_error
    again = np.random.default_rng(1).integers(0, 40_000, 40_000)
    copied = amci.diagnose(**{name: column[again] for name, column in table.items()})
    assert "are copies of others" in copied.verdict.text


@pytest.mark.parametrize("digits", [2, 3, 4])
@pytest.mark.parametrize("f", [np.exp, lambda x: x > 1], ids=["payoff", "indicator"])
def test_few_decimals_and_weights_of_few_digits_are_no_copies(f, digits):
    x = np.random.default_rng(0).normal(0.0, 1.2, 2000)
    log_joint, log_q = norm.logpdf(x), norm.logpdf(x, 0.0, 1.2)
    tables = {
        "decimals": {"log_joint": log_joint.round(digits), "log_q": log_q.round(digits)},
        "a weight": {"log_weight": rounded(log_joint - log_q, digits + 1)},
    }
    again = np.random.default_rng(1).integers(0, 2000, 2000)
    for densities in tables.values():
        table = densities | {"f": rounded(f(x), 3)}
        assert amci.diagnose(table).verdict.level == "reliable"
        copied = amci.diagnose({name: column[again] for name, column in table.items()})
        assert "are copies of others" in copied.verdict.text or digits == 2


@pytest.mark.parametrize("kind", ["float32", "six digits", "whole nats"])
def test_densities_in_steps_of_a_nat_are_not_believed(kind):
    table = importance_table(1.2)
    log_joint = table["log_joint"] - 700
    table["log_joint"] = {
        "float32": (log_joint - 1.2e7).astype(np.float32),
        "six digits": rounded(log_joint - 1.2e5, 6),
        "whole nats": np.rint(log_joint - 50),
    }[kind]
    found = amci.diagnose(**table)
    assert found.verdict.level == "do not trust"
    assert "comes in steps of 0.1 nats or more" in found.verdict.text


@pytest.mark.parametrize("penalty", [1.0, 100.0])
def test_a_density_that_takes_few_values_is_not_rounded(penalty):
    x = np.random.default_rng(0).normal(size=4000)
    w = np.exp(-penalty * (x > 0.3))
    found = amci.diagnose(log_joint=np.log(w), log_q=0 * x, f=x)
    assert found.verdict.level == "reliable"
    np.testing.assert_allclose(found.value, np.average(x, weights=w), rtol=1e-12)


def rows_of_zeros(n):
    return {name: np.zeros(n) for name in ("log_joint", "log_q", "f")}


def mixed(table, others, seed=None):
    """A table with other rows behind its own, or among them."""
    n = len(table["f"]) + len(others["f"])
    order = np.arange(n) if seed is None else np.random.default_rng(seed).permutation(n)
    return {name: np.concatenate([table[name], others[name]])[order] for name in table}


@pytest.mark.parametrize(
    ("nats", "rows", "seed"), [(-3700, 40, None), (-700, 1000, 1)], ids=["not filled", "failed"]
)
def test_copies_count_by_their_weight(nats, rows, seed):
    table = importance_table(1.5)
    table["log_joint"] += nats
    copied = amci.diagnose(**mixed(table, rows_of_zeros(rows), seed))
    assert copied.verdict.level == "do not trust"
    assert f"{rows - 1:,} of {4000 + rows:,} rows are copies of others" in copied.verdict.text
    # Where the copies weigh nothing they change nothing.
    light = {"log_joint": np.full(rows, -1e4), "log_q": np.zeros(rows), "f": np.ones(rows)}
    found, expected = amci.diagnose(**mixed(table, light, seed)), amci.diagnose(**table)
    assert found.verdict.level == expected.verdict.level == "reliable"
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-12)


def test_rows_without_weight_do_not_count_as_rounding():
    table = importance_table(1.5)
    expected = amci.diagnose(**table)
    table["log_joint"][7] = -1e30
    found = amci.diagnose(**table)
    np.testing.assert_allclose(found.value, expected.value, rtol=0.01)
    np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=0.05)
    assert found.verdict.level == "reliable"
    assert np.isfinite(found.verdict.determined_by)


@pytest.mark.parametrize("nats", [10.0, 30.0, 40.0])
def test_one_row_that_outweighs_all_others_tells_no_error(nats):
    rng = np.random.default_rng(0)
    log_weight, f = rng.normal(size=200), rng.normal(size=200)
    log_weight[7] = log_weight.max() + nats
    found = amci.diagnose(log_weight=log_weight, f=f)
    assert found.value == pytest.approx(f[7], abs=1e-2)
    assert np.isnan(found.standard_error)
    assert found.verdict.level == "use more draws"
    assert "of its own draws determine its error" in str(found.verdict)

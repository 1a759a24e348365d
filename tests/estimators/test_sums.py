"""Estimators, their tables, errors and units, on a model whose integrals are sums."""

import re
from dataclasses import replace

import numpy as np
import pytest
from discrete import Discrete, judged, moments_of, prepared, signed
from scipy.special import stdtrit
from scipy.stats import norm

from amci_core.estimation import Estimate
from amci_core.estimators import ESTIMATORS, resolve
from amci_core.estimators.base import combine
from amci_core.estimators.control_variates import regress
from amci_core.estimators.draws import Draws
from amci_core.estimators.mis import moments
from amci_core.estimators.tables import amci, optimum, paper_optimum, reuse, snis_q1, snis_q2
from amci_core.estimators.uncertainty import Uncertainty, relative_variance, snis_bound

MODEL = signed()
POSITIVE = replace(MODEL, f=abs(MODEL.f))
REUSE = np.array([[0.6, -0.3, 0.2], [0.1, 0.8, 0.3], [0.3, 0.5, 0.5]])
MODEL_FACTORS = (lambda f: f.clip(min=0), lambda f: (-f).clip(min=0), np.ones_like)
TABLES = {"amci": amci(), "snis-q1": snis_q1(), "snis-q2": snis_q2(), "reuse": REUSE}


def plain(table, draws):
    """E_t = sum_j v[j, t] mean_j(t w) and their ratio, by plain sums."""
    terms = np.zeros((*draws.batch, 3))
    for j in range(3):
        w = np.exp(draws.log_weight(j))
        for t in range(3):
            factor = MODEL_FACTORS[t](draws.f[:, draws.stretch(j)])
            terms[:, t] += table[j, t] * (factor * w).mean(axis=-1)
    return terms, (terms[:, 0] - terms[:, 1]) / terms[:, 2]


@pytest.mark.parametrize("name", TABLES)
def test_log_space_gives_what_plain_sums_give(name):
    draws = MODEL.draws((7, 5, 9), runs=50, seed=0)
    found = combine(TABLES[name], draws, np.array([[7, 5, 9]]))
    terms, value = plain(TABLES[name], draws)
    np.testing.assert_allclose(
        found.sign[:, 0] * np.exp(found.log_terms[:, 0]), terms, rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(found.value[:, 0], value, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", TABLES)
def test_running_estimates_are_the_one_shot_estimates(name):
    draws = MODEL.draws((60, 50, 70), runs=4, seed=2)
    counts = np.array([[1, 1, 1], [1, 1, 2], [5, 4, 6], [60, 50, 70]])
    running = combine(TABLES[name], draws, counts)
    for b in range(len(counts)):
        alone = combine(TABLES[name], draws, counts[b : b + 1])
        np.testing.assert_allclose(running.value[:, b], alone.value[:, 0], rtol=1e-12)
        np.testing.assert_allclose(running.log_terms[:, b], alone.log_terms[:, 0], rtol=1e-12)


@pytest.mark.parametrize("name", [*TABLES, "snis-qm", "snis-qm-stratified"])
@pytest.mark.parametrize("total", [3, 7])
def test_every_term_is_unbiased(name, total):
    chosen = resolve(TABLES.get(name, name))
    runs = 20_000
    counts = chosen.reserve([total], (0, 1, 2))
    draws = MODEL.draws(tuple(counts.tolist()), runs=runs, seed=3)
    found = chosen.running(draws, [total], np.random.default_rng(4)).combine()
    terms = found.sign[:, 0] * np.exp(found.log_terms[:, 0])
    error = terms.mean(axis=0) - MODEL.terms
    assert (abs(error) < 4 * terms.std(axis=0) / np.sqrt(runs)).all()


def test_a_table_that_needs_an_absent_proposal_is_refused():
    # E1_minus may be left out where f >= 0; a share of another term may not.
    assert resolve("amci").used((0, 2)) == (0, 2)
    half = np.array([[1, 0, 0], [0, 1, 0.5], [0, 0, 0.5]])
    with pytest.raises(ValueError, match=r"^estimator: .* q1_minus"):
        resolve(half).used((0, 2))


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("present", [(0, 2), (0, 1, 2)])
def test_an_estimator_spends_its_whole_budget(name, present):
    chosen = resolve(name)
    totals = [3, 10, 100]
    reserve = chosen.reserve(totals, present)
    draws = MODEL.draws(tuple(reserve.tolist()), runs=1, seed=0)
    if 1 not in present or name == "reuse-paper":
        draws = replace(draws, f=abs(draws.f), signed=False)
    counts = chosen.running(draws, totals, np.random.default_rng(0)).counts
    np.testing.assert_array_equal(counts.sum(axis=1), totals)


@pytest.mark.parametrize(
    ("table", "present"),
    [
        (amci(), (0, 2)),
        ("reuse-paper", (0, 1, 2)),
        (reuse(alpha=0.5, beta=0.5), (0, 1, 2)),
        (reuse(alpha=0.5, beta=0.5), (0, 2)),
        (np.array([[1, 0, 0], [0, 0.5, 0], [0, 0.5, 1]]), (0, 2)),
    ],
)
def test_a_signed_f_without_its_negative_part_is_refused(table, present):
    draws = MODEL.draws((4, 4 * (1 in present), 4), runs=1, seed=0)
    with pytest.raises(ValueError, match=r"^estimator: f - shift takes both signs"):
        resolve(table).running(draws, [8], np.random.default_rng(0))


def in_units(found):
    """Covariances (*, 3, 3, 3) of one draw in the terms' own units."""
    mean = np.exp(found.log_mean)[..., None, :]
    return mean[..., :, None] * found.covariance * mean[..., None, :]


def test_pooled_moments_are_those_of_the_model():
    counts, runs = (3000, 2000, 4000), 60
    found = moments(MODEL.draws(counts, runs=runs, seed=0))
    mean = np.exp(found.log_mean)
    assert (abs(mean.mean(0) - MODEL.terms) < 4 * mean.std(0) / np.sqrt(runs)).all()
    covariance = in_units(found)
    for j in range(3):
        error = abs(covariance[:, j].mean(axis=0) - MODEL.covariance(j))
        # Ratios of means over n draws have a bias of order 1 / n.
        tolerance = 4 * covariance[:, j].std(axis=0) / np.sqrt(runs)
        assert (error <= tolerance + abs(MODEL.covariance(j)) / 2000).all()
    np.testing.assert_array_equal(found.counts, counts)


def test_a_reference_shows_what_every_proposal_misses():
    # The sixth point has a tenth of E1_plus, and no proposal goes there but once in a million.
    q = MODEL.q.copy()
    q[:, 5] = 1e-6
    model = replace(MODEL, q=q / q.sum(axis=1, keepdims=True))
    draws = model.draws((500, 500, 500, 200), runs=1, seed=11)
    assert draws.present == (0, 1, 2)
    found, blind = moments(draws), moments(draws.first([500, 500, 500]))
    exact = 1 / (1 + model.covariance(0)[0, 0] / model.terms[0] ** 2)
    assert exact < 1e-3
    by_all, by_own = (1 / (1 + each.covariance[0, 0, 0, 0]) for each in (found, blind))
    assert by_all == pytest.approx(exact, rel=0.5)
    assert by_own > 0.1
    assert np.exp(found.log_mean[0, 0]) == pytest.approx(MODEL.terms[0], rel=0.2)


@pytest.mark.parametrize("table", [snis_q1(), REUSE])
def test_a_proposal_that_misses_mass_has_an_infinite_variance(table):
    blind = replace(MODEL, q=MODEL.q.copy())
    blind.q[0, :3] = 0
    blind.q[0] /= blind.q[0].sum()
    found = moments(blind.draws((50, 50, 50), runs=3, seed=2))
    assert (relative_variance(table, found) == np.inf).all()
    # AMCI uses q1_plus for E1_plus alone, and of that it misses nothing.
    assert np.isfinite(relative_variance(amci(), found)).all()


def test_an_outlier_is_left_out_and_no_other():
    draws = MODEL.draws((60, 60, 60), runs=1, seed=2)
    # One point of q2 becomes a hundred times as likely under the model.
    giant = replace(draws, log_joint=draws.log_joint.copy())
    hit = draws.stretch(2).start + np.flatnonzero(draws.f[0, draws.stretch(2)] > 0)[0]
    giant.log_joint[0, hit] += np.log(100)
    plain, robust, normal = moments(giant), moments(giant, robust=True), moments(draws)

    def of_f_plus(found):
        return float(in_units(found)[0, 2, 0, 0])

    assert of_f_plus(plain) > 20 * of_f_plus(normal)
    assert of_f_plus(robust) == pytest.approx(of_f_plus(normal), rel=0.5)
    unchanged = moments(draws, robust=True)
    np.testing.assert_array_equal(unchanged.covariance, normal.covariance)


KNOWN_E2 = amci() * [[1], [0], [0]]


@pytest.mark.parametrize(("effective", "freedom"), [(60.0, 60.0), (0.5, 1.0), (np.nan, 1e9)])
def test_an_interval_is_students_t_with_the_effective_number_as_degrees(effective, freedom):
    reach = stdtrit(freedom, 0.975) * 0.2
    plain = Uncertainty(*map(np.array, (0.0, 3.0, 0.2, effective)))
    np.testing.assert_allclose(plain.interval(0.95), [3 - reach, 3 + reach], rtol=1e-9)
    low, high = replace(plain, positive=True).interval(0.95)
    np.testing.assert_allclose([low, high], 3 * np.exp([-reach / 3, reach / 3]), rtol=1e-9)
    low, high = replace(plain, high=4.0).interval(0.95)
    # The log-odds of 3 in 4 have the derivative 4 / 3.
    odds = 3 * np.exp([-reach * 4 / 3, reach * 4 / 3])
    np.testing.assert_allclose([low, high], 4 * odds / (1 + odds), rtol=1e-9)


@pytest.mark.parametrize("name", ["amci", "snis-q2", "reuse"])
def test_standard_errors_are_those_of_many_estimates(name):
    n, runs = 200, 2000
    draws = MODEL.draws((n, n, n), runs=runs, seed=3)
    found = judged(prepared(TABLES[name], draws))
    stated = np.sqrt(np.mean(np.square(found.standard_error)))
    # A sample variance of nearly normal values is known to sqrt(2 / runs).
    assert stated == pytest.approx(found.value.std(), rel=4 / np.sqrt(2 * runs) + 0.02)
    predicted = np.sqrt(relative_variance(TABLES[name], MODEL.moments((n, n, n))))
    assert stated == pytest.approx(predicted * MODEL.size, rel=0.02)


def lognormal(spread, *, n, runs, seed):
    """Draws whose weights have mean one, with a known E2."""
    z = np.random.default_rng(seed).standard_normal((runs, n))
    log_w = spread * z - spread**2 / 2
    zero = np.zeros_like(log_w)
    return Draws(zero + 1, log_w, {0: zero}, {0: n}, False, np.zeros(runs))


@pytest.mark.parametrize("positive", [False, True])
def test_skew_weights_are_brought_nearer_to_their_level(positive):
    n, runs = 64, 10_000
    draws = lognormal(0.8, n=n, runs=runs, seed=1)
    found = judged(prepared(KNOWN_E2, draws), positive=positive)
    low, high = found.interval(0.95)
    covered = ((low < 1) & (high > 1)).mean()
    error = found.standard_error
    w = np.exp(draws.log_weight(0))
    np.testing.assert_allclose(error, w.std(-1, ddof=1) / n**0.5, rtol=1e-9)
    normal = (abs(found.value - 1) < 1.96 * error).mean()
    assert normal < 0.95 - 8 * np.sqrt(0.95 * 0.05 / runs)
    assert abs(covered - 0.95) < abs(normal - 0.95)


@pytest.mark.parametrize("name", [*ESTIMATORS, "a table"])
@pytest.mark.parametrize(("size", "nats"), [(1e-200, 0.0), (1e200, 0.0), (1e-290, -3000.0)])
def test_no_unit_changes_what_an_estimate_says(name, size, nats):
    estimator = resolve(REUSE if name == "a table" else name)
    counts = estimator.reserve([240], (0, 1, 2)).tolist()
    draws = (POSITIVE if name == "reuse-paper" else MODEL).draws(tuple(counts), runs=40, seed=0)
    draws = replace(draws, signed=name != "reuse-paper")
    scaled = replace(draws, f=size * draws.f, log_joint=draws.log_joint + nats)
    near, far = (
        judged(estimator.running(each, [240], np.random.default_rng(1)))
        for each in (draws, scaled)
    )
    # Logarithms of 3000 nats are known to 3000 rounding errors.
    np.testing.assert_allclose(far.log_value, near.log_value + np.log(size), rtol=1e-10)
    for figure in ("value", "standard_error"):
        expected = getattr(near, figure)
        np.testing.assert_allclose(getattr(far, figure) / size, expected, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(
        far.relative_standard_error, near.standard_error / abs(near.value), rtol=1e-7
    )
    for end, expected in zip(far.interval(), near.interval(), strict=True):
        np.testing.assert_allclose(end / size, expected, rtol=1e-7)
    np.testing.assert_array_equal(far.verdict.codes, near.verdict.codes)
    for term, found in far.diagnostics.items():
        for figure in ("ess", "pooled_ess", "uncovered_mass", "largest_weight"):
            expected = getattr(near.diagnostics[term], figure)
            np.testing.assert_allclose(getattr(found, figure), expected, rtol=1e-7, atol=1e-12)


def test_a_mu_that_no_float_holds_is_shown_with_its_error():
    # mu = 3e-401: 1e-200 of the posterior has f > 0, and f is about 1e-200 there.
    rare = Discrete(
        joint=np.array([0.2, 0.3, 1e-201, 2e-201]),
        f=np.array([0.0, 0.0, 1e-200, 7e-200]),
        q=np.array([[0.0, 0.0, 0.4, 0.6], [0.25] * 4, [0.5, 0.5, 1e-201, 1e-201]]),
    )
    draws = replace(rare.draws((500, 0, 500), runs=1, seed=0), signed=False)
    found = Estimate(resolve("amci").apply(draws), positive=True)
    assert found.value == 0
    error = found.relative_standard_error.item()
    assert 0.01 < error < 0.1
    log_mu = np.log(1e-201) + np.log(1e-200) + np.log(15 / 0.5)
    assert found.log_value.item() == pytest.approx(log_mu, abs=4 * error)
    lines = str(found).splitlines()
    assert re.fullmatch(r"mu = exp\(-9\d\d\.\d+\), standard error 0 \(\d\.\d+ %\)", lines[0])
    assert found.verdict.text == lines[2]


def test_a_term_that_no_draw_met_is_never_determined():
    draws = MODEL.draws((4, 4, 4, 4), runs=20, seed=0)
    for blind in (
        replace(draws, f=0 * draws.f),
        replace(draws, log_joint=np.full_like(draws.log_joint, -np.inf)),
    ):
        assert np.isnan(regress(blind).determined_by).all()


def test_terms_are_intercepts_of_least_squares_as_in_optismixture():
    """Two components, the prior the defensive one, and the formula of `batch.estimation` in the R
    package optismixture (He, Owen, 2015): mean of (f p - beta' (q - p)) / q_alpha, beta fitted by
    `lm`, here NumPy's least squares."""
    rng, n = np.random.default_rng(0), 500
    x = np.append(rng.normal(1.5, 0.5, n), rng.normal(0.0, 1.0, n))
    q, p = norm.pdf(x, 1.5, 0.5), norm.pdf(x)
    draws = Draws(
        f=(x > 1.5) * 1.0,
        log_joint=np.log(p),
        log_q={0: np.log(q), 3: np.log(p)},
        counts={0: n, 3: n},
        signed=False,
        log_E2=np.asarray(0.0),
    )
    mixture = (q + p) / 2
    beta = np.linalg.lstsq(
        np.column_stack([np.ones(2 * n), (q - p) / mixture]), draws.f * p / mixture, rcond=None
    )[0][1]
    each = (draws.f * p - beta * (q - p)) / mixture
    expected = each.mean()
    assert abs(expected - norm.sf(1.5)) < 4 * each.std() / (2 * n) ** 0.5
    # The ridge that estimates have moves it by a ten-thousandth.
    for options, moved in (({"ridge": 1e-9}, 1e-6), ({}, 2e-4)):
        found = regress(draws, **options).combined.value.item()
        assert found == pytest.approx(expected, rel=moved)


def test_reuse_contains_the_estimators_of_the_paper():
    no_minus = np.array([1, 0, 1])
    np.testing.assert_array_equal(reuse(alpha=1, beta=0), amci() * no_minus)
    np.testing.assert_array_equal(reuse(alpha=0, beta=0), snis_q2() * no_minus)
    np.testing.assert_array_equal(reuse(alpha=1, beta=1), snis_q1() * no_minus)


def test_the_papers_optimum_is_its_formula():
    # alpha* = N / (M Var_q1[f w] / Var_q2[f w] + N); beta* with w in place of f w.
    covariance = np.full((3, 3, 3), np.nan)
    covariance[0], covariance[2] = np.diag([2.0, 0, 3.0]), np.diag([5.0, 0, 0.5])
    table = paper_optimum(moments_of(np.ones(3), covariance, np.array([40, 0, 10])))
    alpha, beta = 40 / (10 * 2.0 / 5.0 + 40), 40 / (10 * 3.0 / 0.5 + 40)
    np.testing.assert_allclose(table, reuse(alpha, beta))


@pytest.mark.parametrize("counts", [(40, 1, 50), (400, 1, 9)])
def test_no_sample_reuse_has_less_variance_than_the_optimum(counts):
    found = POSITIVE.moments(counts)
    best = optimum(found)
    np.testing.assert_allclose(best.sum(axis=0), [1, 0, 1], rtol=1e-12)
    least = relative_variance(best, found)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(200):
            alpha, beta = best[0, ::2] + size * rng.standard_normal(2)
            assert relative_variance(reuse(alpha, beta), found) >= least * (1 - 1e-9)
    for table in (amci(), snis_q1(), snis_q2()):
        assert relative_variance(table, found) > least
    # Nothing comes from a proposal that misses a term.
    found.covariance[0, 2, 2] = np.inf
    table = optimum(found)
    assert table[0, 2] == 0 != table[0, 0]
    np.testing.assert_allclose(table.sum(axis=0), [1, 0, 1], rtol=1e-12)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones((3, 2)), r"table: expected coefficients up to 1e\+08 of shape \(3, 3\)"),
        (np.full((3, 3), np.nan), r"table: expected coefficients .* got \[\[nan"),
        (np.ones((3, 3)), r"table: expected columns that sum to one .* got sums \[3.0"),
        (np.diag([1, 0.5, 1]), r"table: expected columns .* got sums \[1.0, 0.5, 1.0\]"),
        ("snis-q3", r"estimator: expected one of amci-cv, .* or a table, got 'snis-q3'"),
        ([[1e300, 0, 0], [-1e300, 0, 0], [1, 0, 1]], r"table: expected coefficients up to"),
        ("reuse:1e300:1e300", r"alpha: expected a number up to 1e\+08, got 1e\+300"),
        ("reuse:nan:0", r"alpha: expected a number up to 1e\+08, got nan"),
    ],
)
def test_what_is_no_estimator_is_named(table, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        resolve(table)


def test_the_bound_is_the_variance_of_the_best_proposal():
    # With q proportional to p |f - mu|, the SNIS error has variance (E|f - mu|)^2 / T.
    p = np.array([0.2, 0.5, 0.3])
    f = np.array([-1.0, 0.5, 4.0])
    deviation = p @ abs(f - p @ f)
    q = p * abs(f - p @ f) / deviation
    variance = q @ (p / q * (f - p @ f)) ** 2
    assert snis_bound(np.array(deviation), [7])[0] == pytest.approx(variance / 7)

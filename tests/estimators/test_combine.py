"""From draws and a table to estimates, on a model whose integrals are sums."""

from dataclasses import replace

import numpy as np
import pytest
from discrete import signed

from amci_core.estimators import (
    ESTIMATORS,
    combine,
    resolve,
)
from amci_core.estimators.tables import amci, reuse, snis_q1, snis_q2

MODEL = signed()
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
    runs = 40_000
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

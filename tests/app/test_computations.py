"""What is computed for a case: densities on the line, error curves, and what presets claim."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from amci_explorer.compute import computations
from amci_explorer.compute.computations import TOTALS, computations_of
from amci_explorer.compute.results import Results
from amci_explorer.numbers.pictures import densities
from amci_explorer.problems import registry
from amci_explorer.problems.presets import presets
from amci_explorer.state.case import Case
from amci_explorer.views.errors import ErrorCard
from scipy.special import log_ndtr

import amci_core as amci

STORE = computations_of("tail-1d")


@pytest.fixture(autouse=True)
def _few_totals(monkeypatch):
    monkeypatch.setattr(computations, "TOTALS", (10, 100, 1000, 10_000))


def choice(y, theta, **chosen):
    state = Case("tail-1d")
    state.move(y=y, theta=theta)
    state.param.update(**chosen)
    return state.settings


def shown(y, theta, **chosen):
    settings = choice(y, theta, **chosen)
    return densities(STORE.problem, registry.chosen(settings), *settings.pair)


@pytest.mark.parametrize(
    ("y", "theta", "variant"),
    [
        *((y, theta, "spline") for y, theta in ((1, 3), (3, 0.1), (8, 0), (-4, 0), (8, 5))),
        *((-4, 5, variant) for variant in ("spline", "paper")),
    ],
)
def test_densities_have_mass_one_and_g_99_per_cent_of_it_in_its_region(y, theta, variant):
    found = shown(y, theta, variant=variant)
    assert (np.diff(found.x) > 0).all()
    for name in ("target", "posterior", "q1", "q2"):
        density = getattr(found, name)
        # The axis may be logarithmic.
        assert (density > 0).all()
        assert np.trapezoid(density, found.x) == pytest.approx(1, abs=5e-3), name
    low, high = found.regions["g"]
    assert theta <= low < high
    above_low, above_high, above_theta = (
        np.exp(log_ndtr(-(x - y / 2) * np.sqrt(2))) for x in (low, high, theta)
    )
    assert (above_low - above_high) / above_theta == pytest.approx(0.99, abs=2e-3)


@pytest.mark.parametrize("variant", ["spline", "paper", "oracle"])
def test_densities_are_those_of_the_proposals(variant):
    found = shown(1.0, 3.0, variant=variant)
    proposals = amci.load_proposals("tail-1d", variant=variant)
    y, theta = STORE.problem.check(1.0, 3.0)
    with torch.inference_mode():
        log_q1 = proposals.q1_plus(y, theta).log_prob(torch.as_tensor(found.x)[:, None]).numpy()
    above = found.q1 > 1e-20
    np.testing.assert_allclose(found.q1[above], np.exp(log_q1[above]), rtol=1e-12)
    if variant == "oracle":
        np.testing.assert_allclose(found.q1, found.target, rtol=1e-12)
        assert found.divergence == pytest.approx(0, abs=1e-12)


def test_error_curves_are_those_of_the_core_and_reuse_is_at_the_chosen_draws():
    settings = choice(1.0, 1.0, runs=6, seed=5, draws=9)
    found = STORE.error_curves(settings).run()
    expected = amci.error_curves(
        "tail-1d", None, 1.0, 1.0, draws=[10, 18, 100, 1000, 10_000], runs=6, seed=5
    )
    for name, curve in expected.by_name.items():
        np.testing.assert_array_equal(found[name].remse_quartiles, curve.remse_quartiles)
    reuse = STORE.reuse(settings).run()
    assert (reuse.runs, reuse.counts) == (6, (9, 9))
    another = STORE.reuse(replace(settings, seed=6)).run()
    assert not np.array_equal(another.remse, reuse.remse, equal_nan=True)
    assert {0.0, 1.0} <= {*reuse.alphas} & {*reuse.betas}
    # Those of the page.
    assert (TOTALS[0], TOTALS[-1]) == (2, 10_000)
    assert all(total % 2 == 0 for total in TOTALS)


def test_sobol_points_make_the_errors_of_control_variates_smaller():
    settings = choice(1.0, 3.0, runs=20, seed=5)
    independent, scrambled = (
        STORE.error_curves(settings, sobol=sobol).run()["amci-cv"].remse[-1]
        for sobol in (False, True)
    )
    assert scrambled < 0.4 * independent


def test_the_curves_switches_change_the_state_and_follow_it():
    state = Case("tail-1d")
    card = ErrorCard(state, Results())
    every = card.tools()[0]
    every.value = True
    assert state.every
    state.set(every=False, sobol=True)
    assert not every.value
    assert dict(card.asked(state).options) == {"sobol": True}


@cache
def at_preset(name, what="error_curves"):
    """A computation at one of the presets."""
    state = Case("tail-1d")
    state.visit(next(each.link for each in presets(STORE.problem) if each.name == name))
    state.set(runs=30)
    return getattr(STORE, what)(state.settings).run()


def test_presets_say_true_things_of_amci_and_posterior_draws():
    rare, common, fair = map(at_preset, ("rare event", "common event", "a fair loss"))
    assert (rare["snis-q2"].remse_median[rare.draws <= 1000] > 0.9).all()
    assert (rare["amci"].remse_median < 1e-3).all()
    ends = [
        {name: curve.remse_median[-1] for name, curve in curves.by_name.items()}
        for curves in (common, fair)
    ]
    assert 1 < ends[0]["snis-q2"] / ends[0]["amci"] < 100
    assert ends[1]["amci"] > ends[1]["snis-q2"] > 100**2 * ends[1]["amci-cv"]


def test_far_from_training_amci_is_wrong_and_control_variates_repair_it():
    curves, summary = at_preset("badly trained"), at_preset("badly trained", "summary")
    assert (curves["amci"].remse_median > 0.1).all()
    assert 10 * curves["amci-cv"].remse_median[-1] < curves["amci"].remse_median[-1]
    assert summary.effective["E1_plus"] < 1
    assert summary.rows[0].relative_error < -0.3
    assert summary.rows[0].remark.startswith("do not trust: all draws together contradict it")


def test_careless_sharing_doubles_the_estimate():
    reuse = at_preset("careless sharing", "reuse")
    # Twice the truth is a relative squared error of one.
    assert np.median(reuse.errors([1.0], beta=0.5) ** 2) == pytest.approx(1, abs=0.05)
    assert (reuse.errors([1.0], beta=0.0) ** 2).mean() < 1e-4


def test_a_problem_with_known_evidence_has_the_curves_of_plain_rivals():
    stream = computations_of("peak").error_curves(Case("peak").settings)
    curves = stream.merge([stream.part(0)])
    assert {*curves.by_name} == {"amci", "amci-cv", "snis-q1", "bound", "prior", "reference"}
    stream.part(stream.count - 1)

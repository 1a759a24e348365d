import numpy as np
import pytest
import torch
from amci_explorer.compute.computations import TOTALS, computations_of
from amci_explorer.compute.results import Results
from amci_explorer.numbers.pictures import densities
from amci_explorer.problems.presets import presets
from amci_explorer.state.case import Case
from amci_explorer.views.errors import ErrorCard
from scipy.special import log_ndtr

import amci_core as amci

POINTS = [(1.0, 3.0), (3.0, 0.1), (-4.0, 5.0), (8.0, 0.0), (-4.0, 0.0), (8.0, 5.0)]


@pytest.fixture(scope="module")
def store():
    return computations_of("tail-1d")


def choice(store, y, theta, **chosen):
    state = Case(store.problem.name)
    state.move(y=y, theta=theta)
    state.param.update(**chosen)
    return state.settings


def shown(store, choice):
    return densities(store.problem, store.proposals(choice), *choice.pair)


@pytest.mark.parametrize(("y", "theta"), POINTS)
def test_densities_are_normalized_on_their_points(store, y, theta):
    found = shown(store, choice(store, y, theta))
    assert (np.diff(found.x) > 0).all()
    for name in ("target", "posterior", "q1", "q2"):
        assert np.trapezoid(getattr(found, name), found.x) == pytest.approx(1, abs=5e-3), name


@pytest.mark.parametrize(("y", "theta"), POINTS)
def test_region_carries_99_per_cent_of_g(store, y, theta):
    found = shown(store, choice(store, y, theta))
    low, high = found.regions["g"]
    assert theta <= low < high
    above_low, above_high, above_theta = (
        np.exp(log_ndtr(-(x - y / 2) * np.sqrt(2))) for x in (low, high, theta)
    )
    assert (above_low - above_high) / above_theta == pytest.approx(0.99, abs=2e-3)


@pytest.mark.parametrize("variant", ["spline", "paper"])
def test_learnt_densities_are_those_of_the_proposals(store, variant):
    found = shown(store, choice(store, 1.0, 3.0, variant=variant))
    proposals = amci.load_proposals("tail-1d", variant=variant)
    y, theta = store.problem.check(1.0, 3.0)
    with torch.inference_mode():
        log_q1 = proposals.q1_plus(y, theta).log_prob(torch.as_tensor(found.x)[:, None]).numpy()
    above = found.q1 > 1e-20
    np.testing.assert_allclose(found.q1[above], np.exp(log_q1[above]), rtol=1e-12)


def test_exact_proposals_are_what_they_should_match(store):
    found = shown(store, choice(store, 1.0, 3.0, variant="oracle"))
    np.testing.assert_allclose(found.q1, found.target, rtol=1e-12)
    assert found.divergence == pytest.approx(0, abs=1e-12)


def test_all_densities_can_be_drawn_on_a_logarithmic_axis(store):
    found = shown(store, choice(store, -4.0, 5.0, variant="paper"))
    for name in ("target", "posterior", "q1", "q2"):
        assert (getattr(found, name) > 0).all()


def test_the_film_starts_untrained_and_ends_with_the_trained_proposal(store):
    last = len(amci.load_history("tail-1d")) - 1
    first, end, trained = (
        shown(store, choice(store, 1.0, 3.0, snapshot=frame)) for frame in (0, last, None)
    )
    np.testing.assert_allclose(end.q1, trained.q1, rtol=1e-12)
    assert first.divergence > 100 * max(trained.divergence, 1e-9)


def test_error_curves_are_those_of_the_core_at_the_same_seed(store):
    found = store.error_curves(choice(store, 1.0, 1.0, runs=6, seed=5)).run()
    expected = amci.error_curves(
        store.problem,
        amci.load_proposals("tail-1d"),
        y=1.0,
        theta=1.0,
        draws=store.draws(choice(store, 1.0, 1.0, runs=6)),
        runs=6,
        seed=5,
    )
    for name, curve in expected.by_name.items():
        np.testing.assert_array_equal(found[name].remse_quartiles, curve.remse_quartiles)


def test_sobol_points_make_the_errors_of_control_variates_smaller(store):
    settings = choice(store, 1.0, 3.0, runs=100, seed=5)
    independent = store.error_curves(settings).run()
    scrambled = store.error_curves(settings, sobol=True).run()
    many = independent.draws > 1000
    ratio = scrambled["amci-cv"].remse[many] / independent["amci-cv"].remse[many]
    assert np.median(ratio) < 0.5


def test_the_curves_switches_change_the_state_and_follow_it():
    state = Case("tail-1d")
    card = ErrorCard(state, Results())
    every = card.tools()[0]
    every.value = True
    assert state.every
    state.set(every=False, sobol=True)
    assert not every.value
    assert dict(card.asked(state).options) == {"sobol": True}


def test_budgets_reach_ten_thousand_draws_and_split_in_two():
    assert TOTALS[0] == 2
    assert TOTALS[-1] == 10_000
    assert all(total % 2 == 0 for total in TOTALS)


def test_reuse_is_at_the_chosen_draws(store):
    found = store.reuse(choice(store, 1.0, 1.0, runs=5, draws=9)).run()
    assert (found.runs, found.counts) == (5, (9, 9))
    assert 0.0 in found.betas
    assert 1.0 in found.alphas


@pytest.fixture(scope="module")
def at_preset(store):
    """For every preset by its name: error curves, sample reuse and a summary."""
    state, found = Case(store.problem.name), {}
    for preset in presets(store.problem):
        state.visit(preset.link)
        state.set(runs=30)
        curves = store.error_curves(state.settings).run()
        reuse = store.reuse(state.settings).run()
        found[preset.name] = (curves, reuse, store.summary(state.settings).run())
    return found


def test_large_mismatch_keeps_snis_at_one_for_thousands_of_draws(at_preset):
    curves, _, _ = at_preset["rare event"]
    assert (curves["snis-q2"].remse_median[curves.draws < 2000] > 0.9).all()
    assert (curves["amci"].remse_median < 1e-3).all()


def test_small_mismatch_leaves_amci_a_small_lead(at_preset):
    curves, _, _ = at_preset["common event"]
    lead = curves["snis-q2"].remse_median[-1] / curves["amci"].remse_median[-1]
    assert 1 < lead < 100


def test_far_from_training_amci_is_wrong_though_its_own_draws_agree(at_preset):
    curves, _, summary = at_preset["badly trained"]
    assert (curves["amci"].remse_median > 0.1).all()
    assert summary.effective["E1_plus"] < 1
    row = summary.rows[0]
    assert row.relative_error < -0.3
    assert row.remark.startswith("do not trust: all draws together contradict it")


def test_with_control_variates_the_same_draws_repair_it(at_preset):
    curves, _, _ = at_preset["badly trained"]
    own, control = (curves[name].remse_median[-1] for name in ("amci", "amci-cv"))
    assert 10 * control < own


def test_a_proposal_for_the_complement_repairs_a_fair_loss(at_preset):
    curves, _, _ = at_preset["a fair loss"]
    ends = {name: curve.remse_median[-1] for name, curve in curves.by_name.items()}
    assert ends["amci"] > ends["snis-q2"]
    assert 100**2 * ends["amci-cv"] < ends["snis-q2"]


def test_careless_sharing_doubles_the_estimate(at_preset):
    _, reuse, _ = at_preset["careless sharing"]
    # Twice the truth is a relative squared error of one.
    assert np.median(reuse.errors([1.0], beta=0.5) ** 2) == pytest.approx(1, abs=0.05)
    assert (reuse.errors([1.0], beta=0.0) ** 2).mean() < 1e-4


def test_every_part_of_the_curves_of_a_problem_with_plain_rivals_can_be_computed():
    peak = computations_of("peak")
    stream = peak.error_curves(Case("peak").settings)
    found = stream.merge([stream.part(0)])
    assert set(found.by_name) == {
        *("amci", "amci-cv", "snis-q1"),
        *("bound", "prior", "reference"),
    }
    stream.part(stream.count - 1)

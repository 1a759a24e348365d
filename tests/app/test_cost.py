"""What training cost against draws that need none: known variances, and what the page says."""

import json
import math
from dataclasses import replace

import pytest
from amci_explorer.compute.results import Result
from amci_explorer.numbers.cost import Cost, Rival, break_even, cost, training_seconds
from amci_explorer.numbers.known import exact
from amci_explorer.state.state import State
from amci_explorer.views.export import everything
from amci_explorer.words.headline import about_cost
from scipy.integrate import quad
from scipy.stats import norm

import amci_core as amci
from amci_core.flows import Proposals


def at(name, y, theta, variant=None, draws=128):
    problem = amci.problem(name)
    proposals = amci.load_proposals(name, variant=variant)
    mu = exact(problem, y, theta)
    return cost(problem, proposals, *problem.check(y, theta), draws=draws, mu=mu)


def worth(rival):
    return rival.relative_variance


@pytest.mark.parametrize(("y", "theta"), [(1.0, 3.0), (3.0, 0.1)])
def test_variances_of_untrained_draws_are_those_of_their_integrals(y, theta):
    found = at("tail-1d", y, theta).samplers
    mean, scale = y / 2, math.sqrt(0.5)
    mu = norm.sf(theta, mean, scale)

    def each(x):
        return norm.pdf(x, mean, scale) ** 2 / norm.pdf(x) * ((x > theta) / mu - 1) ** 2

    of_prior = quad(each, -8, theta)[0] + quad(each, theta, theta + 8)[0]
    # 3,000 weighted draws.
    assert worth(found["prior"]) == pytest.approx(of_prior, rel=0.1)
    assert worth(found["posterior"]) == pytest.approx(1 / mu - 1, rel=0.1)


@pytest.mark.parametrize("name", ["gain-loss", "peak"])
def test_variances_of_the_defensive_density_are_those_of_runs(name):
    problem, (y, theta) = amci.problem(name), State(name).settings.pair
    untrained = Proposals.from_defensive(problem)
    runs = amci.error_curves(
        problem, untrained, y, theta, draws=[3000], runs=400, estimators=["amci"]
    )["amci"]
    measured = 3000 * float(runs.remse[0])
    # The standard deviation of a mean square over 400 runs is a fourteenth.
    assert worth(at(name, y, theta).samplers["defensive"]) == pytest.approx(measured, rel=0.3)


def test_a_rival_that_no_run_can_measure_is_judged_by_weighted_draws():
    y, theta = State("tail-20d").settings.pair
    found = at("tail-20d", y, theta).samplers
    mu = float(amci.problem("tail-20d").truth(y, theta))
    assert mu < 1e-9
    assert worth(found["posterior"]) == pytest.approx(1 / mu, rel=0.1)


def test_a_rule_with_more_nodes_is_nearer_to_mu():
    for name in ("tail-1d", "gain-loss", "cancer"):
        wrong = [each for each, _ in at(name, *State(name).settings.pair).rule]
        assert wrong[0] > 1e-4 > wrong[-1]
    assert at("tail-5d", *State("tail-5d").settings.pair).rule == ()


def test_both_have_cost_the_same_after_the_break_even():
    found = Cost(200.0, 0.002, {"prior": Rival(50.0, 0.001, 1e-6)})
    # 50 / 0.01^2 draws of a microsecond.
    (seconds,) = found.rivals(0.01).values()
    assert seconds == pytest.approx(0.501)
    queries = break_even(found.training, found.amci, seconds)
    assert queries * seconds == pytest.approx(found.training + queries * found.amci)
    assert break_even(200.0, 0.002, 0.001) == math.inf


def test_a_coarse_rule_that_is_right_by_chance_is_not_taken():
    rule = ((1e-6, 0.1), (1e-2, 0.2), (1e-4, 0.3), (1e-8, 0.4))
    found = Cost(200.0, 0.002, {}, rule)
    assert found.rivals(1e-3) == {"quadrature": 0.3}
    assert found.rivals(1e-9) == {}


@pytest.mark.parametrize(
    ("samplers", "rule", "said"),
    [
        (
            {"prior": 0.502, "defensive": 0.102},
            (),
            "AMCI is cheaper than defensive draws after about 2,000 queries.",
        ),
        ({"prior": 3000.0}, (), "AMCI is cheaper than prior draws from the first query"),
        (
            {"prior": 0.102},
            ((1e-9, 1e-4),),
            "AMCI is cheaper than prior draws after about 2,000 queries; quadrature is "
            "cheaper for ever.",
        ),
        (
            {"posterior": 1e-3},
            ((1e-9, 1e-4),),
            "posterior draws and quadrature are cheaper for ever.",
        ),
        ({"defensive": 1e-3}, (), "defensive draws are cheaper for ever."),
        ({}, ((1e-9, 1e-4),), "At equal error quadrature is cheaper for ever."),
        ({"prior": 0.5}, ((1e-9, 0.022),), "than quadrature after about 10,000 queries."),
    ],
)
def test_the_note_names_the_best_rival_and_when_training_has_paid(samplers, rule, said):
    rivals = {name: Rival(0.0, seconds, 0.0) for name, seconds in samplers.items()}
    told = about_cost(Cost(200.0, 0.002, rivals, rule), 0.01)
    assert told.startswith("Training took 3 min. At equal error ")
    assert said in told


def test_what_is_not_determined_is_not_judged():
    found = Cost(90.0, 0.002, {"prior": Rival(math.nan, 0.001, 1e-6)})
    assert "not judged: AMCI's error is not determined" in about_cost(found, math.nan)
    told = about_cost(found, 0.01)
    assert told.startswith("Training took 90 s. When it pays is not judged: that of draws")


def test_time_of_training_is_that_of_the_proposals_that_amci_draws_from():
    recorded = amci.load_proposals("tail-1d").card["configuration"]["seconds"]
    assert training_seconds(amci.load_proposals("tail-1d")) == pytest.approx(
        recorded["q1_plus"] + recorded["q2"]
    )
    first, *_, last = amci.load_history("tail-1d")
    assert training_seconds(first.proposals) == pytest.approx(recorded["q2"])
    assert training_seconds(last.proposals) == pytest.approx(last.seconds + recorded["q2"])


def test_nothing_is_said_without_a_training_or_without_a_relative_error():
    assert at("tail-1d", 1.0, 3.0, variant="oracle") is None
    assert at("gain-loss", 1.0, 0.5) is None
    assert about_cost(None, 0.01) == ""


def test_the_file_of_all_results_holds_the_times(in_a_loop):
    def body(turned):
        turned.does = True
        turned.explorer.state.commit()
        shown = turned.explorer.summary.shown
        unknown = replace(shown.value.cost, samplers={"prior": Rival(math.nan, 0.001, 1e-6)})
        found = Result(shown.asked, replace(shown.value, cost=unknown), 1.0, complete=True)
        content = json.load(everything(turned.explorer.state, {"summary": found}))
        told = content["results"]["summary"]["cost"]
        assert told["training"] == pytest.approx(199.1)
        assert told["samplers"]["prior"]["relative_variance"] is None
        assert "Training took 3 min." in turned.explorer.headline.panel.object

    in_a_loop(body, {"problem": "tail-1d", "runs": "4"})

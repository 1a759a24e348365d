"""The estimate alone is the value of the estimate that is judged."""

import copy

import numpy as np
import pytest
import torch

import amci_core as amci
from amci_core.flows import Proposals


@pytest.mark.parametrize("name", ["tail-1d", "tail-5d", "cancer", "gain-loss", "peak"])
def test_it_is_the_value_of_the_estimate(name):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    cases = problem.cases(7, seed=3)
    judged = amci.estimate(problem, proposals, *cases, draws=20, seed=5, estimator="amci")
    found = amci.estimate_value(problem, proposals, *cases, draws=20, seed=5)
    assert found.shape == (7,)
    np.testing.assert_allclose(found, judged.value, rtol=1e-9, atol=1e-14)


def test_perfect_proposals_give_the_truth():
    problem = amci.problem("tail-1d")
    oracle = amci.load_proposals("tail-1d", variant="oracle")
    cases = problem.cases(3, seed=0)
    found = amci.estimate_value(problem, oracle, *cases, draws=1)
    np.testing.assert_allclose(found, problem.truth(*cases), rtol=1e-12)


def test_where_no_draw_reaches_f_it_is_zero():
    problem = amci.problem("tail-1d")
    proposals = amci.load_proposals("tail-1d")
    blind = Proposals(problem.name, "blind", proposals.q2, None, proposals.q2)
    assert amci.estimate_value(problem, blind, 0.0, 5.0, draws=10) == 0


@pytest.mark.parametrize("name", ["tail-1d", "tail-5d", "cancer", "gain-loss", "peak"])
def test_in_single_precision_it_is_as_good(name):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    cases = problem.cases(50, seed=3)
    # Where mu passes through zero there is no relative error; there the largest counts.
    truth = np.asarray(problem.truth(*cases))
    unit = np.abs(truth) if problem.nonnegative else np.abs(truth).max()
    errors = {
        single: np.array(
            [
                (amci.estimate_value(problem, proposals, *cases, draws=10, seed=s, single=single)
                 - truth) / unit
                for s in range(40)
            ]
        )
        for single in (False, True)
    }  # fmt: skip
    assert errors[True].dtype == np.float64
    rms = {single: np.sqrt(np.median(np.square(e).mean(0))) for single, e in errors.items()}
    # Medians over 50 cases of means over 40 runs differ by a tenth; rounding adds its own error.
    assert rms[True] < 1.4 * rms[False] + 1e-4
    mean, error = errors[True].mean(0), errors[True].std(0, ddof=1) / np.sqrt(40)
    assert np.median(np.abs(mean) / (error + 2e-5)) < 1.5


def test_in_single_precision_weights_that_change_are_read_again():
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
    proposals = copy.deepcopy(proposals)
    first = amci.estimate_value(problem, proposals, 1.0, 3.0, single=True)
    assert amci.estimate_value(problem, proposals, 1.0, 3.0, single=True) == first
    with torch.no_grad():
        for weight in proposals.q1_plus.parameters():
            weight.mul_(0.9)
    assert amci.estimate_value(problem, proposals, 1.0, 3.0, single=True) != first
    assert proposals.q1_plus.networks[0].network[0].weight.dtype == torch.float64


def test_single_precision_is_for_networks():
    problem = amci.problem("tail-1d")
    oracle = amci.load_proposals("tail-1d", variant="oracle")
    with pytest.raises(ValueError, match=r"^single: expected .* networks, got 'oracle'"):
        amci.estimate_value(problem, oracle, 1.0, 3.0, single=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"draws": 0}, "draws: expected a whole number from 1"),
        ({"draws": 2.5}, "draws: expected a whole number"),
        ({"draws": 20_000_000}, "draws, of all proposals and pairs together"),
        ({"seed": -1}, "seed: expected"),
        ({"theta": -3.0}, "theta"),
    ],
)
def test_bad_arguments_are_named(options, said):
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
    arguments = {"y": 1.0, "theta": 3.0} | options
    with pytest.raises(ValueError, match=f"^{said}"):
        amci.estimate_value(problem, proposals, **arguments)

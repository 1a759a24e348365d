"""The losses: what they weigh, what they leave out, and when they are silent."""

import math

import pytest
import torch
from imperfect import gaussian

from amci_core.flows import FAMILIES
from amci_core.models import Problem, problem
from amci_core.models.tail import GaussianTail
from amci_core.training.objectives import PaperObjective, RefineObjective
from amci_core.training.targets import JointTarget, Target

PROBLEM = problem("tail-1d")


def refine(target, cases, uniform_cases, from_proposal, from_reference):
    return RefineObjective(
        target,
        torch.Generator().manual_seed(0),
        cases=cases,
        uniform_cases=uniform_cases,
        from_proposal=from_proposal,
        from_reference=from_reference,
    )


def paper(target=None, **settings):
    return PaperObjective(
        target or Target(PROBLEM), torch.Generator().manual_seed(0), validation_size=10, **settings
    )


def radial(layers=1):
    return FAMILIES["radial"](
        PROBLEM, reads_theta=True, layers=layers, hidden=[4], activation="relu", shift=True
    )


def slope_of_mean(objective, q, repeats=50):
    bias = q.conditioner.network[-1].bias
    return (
        sum(torch.autograd.grad(objective.loss(q), bias)[0][0].item() for _ in range(repeats))
        / repeats
    )


def test_refining_an_exact_proposal_has_no_gradient_at_all():
    q2 = gaussian().float()
    loss = refine(JointTarget(PROBLEM), 24, 8, 6, 2).loss(q2)
    for slopes in torch.autograd.grad(loss, list(q2.parameters())):
        assert slopes.abs().max() < 1e-6


def test_refining_pulls_a_shifted_mean_back_as_the_divergence_says():
    q2 = gaussian(mean_shift=0.3).float()
    # d KL / d mean = (mean - y / 2) / variance = 0.6; normalizing 16 weights biases it by a
    # few hundredths.
    assert abs(slope_of_mean(refine(JointTarget(PROBLEM), 192, 64, 12, 4), q2) - 0.6) < 0.05


def test_refining_moves_a_proposal_that_wastes_draws_where_f_is_zero():
    # q1 is the posterior at (y, theta) = (2, 1), half of it below theta; g is its upper half.
    target = Target(PROBLEM)
    target.cases = lambda n, **_: (torch.full((n, 1), 2.0), torch.full((n, 1), 1.0))
    # d KL / d mean = -(E_g[x] - mean) / variance = -2 s sqrt(2 / pi), s^2 = 1 / 2.
    exact = -2 * math.sqrt(0.5) * math.sqrt(2 / math.pi)
    slope = slope_of_mean(refine(target, 64, 0, 48, 16), gaussian().float())
    assert slope == pytest.approx(exact, rel=0.05)


def test_the_papers_loss_is_a_weighted_mean_over_one_batch():
    target = Target(PROBLEM)
    objective = paper(target, size=64, batch=64)
    sample = target.sample(64, torch.Generator().manual_seed(0))
    q1 = radial(layers=2)
    log_q = q1(sample.y, sample.theta).log_prob(sample.x[:, None])[:, 0]
    expected = -(sample.log_r.exp() * log_q).mean()
    torch.testing.assert_close(objective.loss(q1), expected)


def test_the_papers_loss_leaves_out_draws_where_f_and_q_are_zero():
    class FromThePrior(GaussianTail):
        sample_training = Problem.sample_training

    target = Target(FromThePrior(1))
    objective = paper(target, size=500, batch=500)
    y, theta, x, _ = objective.train
    inside = (x > theta).squeeze(-1)
    assert 0 < inside.sum() < 500
    q1 = FAMILIES["autoregressive-spline"](
        target.problem,
        coordinates=[{"kind": "half-line", "scale": 0.5}],
        bins=4,
        hidden=[8],
        activation="relu",
    )
    # f is one there.
    expected = -q1(y[inside], theta[inside]).log_prob(x[inside][:, None]).sum() / 500
    slopes = torch.autograd.grad(expected, list(q1.parameters()))
    for _ in range(2):  # the second one comes after a validation
        loss = objective.loss(q1)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(torch.autograd.grad(loss, list(q1.parameters())), slopes)


def sets_drawn(objective, q1, steps, shift):
    """Whether the training set is another one, after each step of a proposal that moves away."""
    first, drawn = objective.train, []
    for _ in range(steps):
        with torch.no_grad():
            q1.conditioner.network[-1].bias -= shift
        objective.loss(q1)
        drawn.append(objective.train is not first)
    return drawn


def test_the_training_set_is_drawn_again_after_the_last_epoch_and_not_before():
    # Three epochs of two batches; a constant q cannot make a misstep.
    drawn = sets_drawn(paper(size=20, batch=10, epochs=3), radial(), steps=7, shift=0.0)
    assert drawn == [*6 * [False], True]


def test_more_missteps_than_forgiven_draw_a_new_set():
    # Away from the data the validation loss rises every epoch. Epoch 1 sets the best, epochs 2
    # to 4 rise above it: three missteps, one more than forgiven.
    objective = paper(size=10, batch=10, missteps=2)
    assert sets_drawn(objective, radial(layers=0), steps=5, shift=1.0) == [*4 * [False], True]

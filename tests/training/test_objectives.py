"""The losses: what they weigh, what they leave out, and when they are silent."""

import math

import torch
from imperfect import gaussian

from amci_core.flows import FAMILIES
from amci_core.models import Problem, problem
from amci_core.models.tail import GaussianTail
from amci_core.training.objectives import PaperObjective, RefineObjective
from amci_core.training.targets import JointTarget, Target

PROBLEM = problem("tail-1d")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def gradient(objective, q):
    loss = objective.loss(q)
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(q.parameters()))])


def test_refining_an_exact_proposal_has_no_gradient_at_all():
    target = JointTarget(PROBLEM)
    objective = RefineObjective(
        target, generator(), cases=24, uniform_cases=8, from_proposal=6, from_reference=2
    )
    assert gradient(objective, gaussian().float()).abs().max() < 1e-6


def test_refining_pulls_a_shifted_mean_back_as_the_divergence_says():
    q2 = gaussian().float()
    with torch.no_grad():
        q2.conditioner.network[-1].bias[0] += 0.3
    objective = RefineObjective(
        JointTarget(PROBLEM),
        generator(),
        cases=192,
        uniform_cases=64,
        from_proposal=12,
        from_reference=4,
    )
    slopes = torch.stack(
        [
            torch.autograd.grad(objective.loss(q2), q2.conditioner.network[-1].bias)[0][0]
            for _ in range(50)
        ]
    )
    # d KL / d mean = (mean - y / 2) / variance = 0.6; normalizing 16 weights biases it by a
    # few hundredths.
    assert abs(slopes.mean() - 0.6) < 0.05


def test_refining_moves_a_proposal_that_wastes_draws_where_f_is_zero():
    # q1 is the posterior at (y, theta) = (2, 1), half of it below theta; g is its upper half.
    q1 = gaussian().float()
    target = Target(PROBLEM)

    def always_there(n, *, uniform, generator):
        return torch.full((n, 1), 2.0), torch.full((n, 1), 1.0)

    target.cases = always_there
    objective = RefineObjective(
        target, generator(), cases=64, uniform_cases=0, from_proposal=48, from_reference=16
    )
    slopes = [
        torch.autograd.grad(objective.loss(q1), q1.conditioner.network[-1].bias)[0][0].item()
        for _ in range(50)
    ]
    # d KL / d mean = -(E_g[x] - mean) / variance = -2 s sqrt(2 / pi), s^2 = 1 / 2.
    exact = -2 * math.sqrt(0.5) * math.sqrt(2 / math.pi)
    assert abs(sum(slopes) / 50 - exact) < 0.05 * abs(exact)


def test_a_single_nan_in_the_target_reaches_the_loss():
    target = JointTarget(PROBLEM)
    healthy = target.log_density

    def poisoned(x, y, theta):
        value = healthy(x, y, theta)
        value[0, 0] = math.nan
        return value

    target.log_density = poisoned
    objective = RefineObjective(
        target, generator(), cases=8, uniform_cases=0, from_proposal=3, from_reference=1
    )
    assert torch.isnan(objective.loss(gaussian().float()))


def test_the_papers_loss_is_a_weighted_mean_over_one_batch():
    target = Target(PROBLEM)
    objective = PaperObjective(target, generator(), size=64, validation_size=8, batch=64)
    sample = target.sample(64, generator())
    q1 = FAMILIES["radial"](
        PROBLEM, reads_theta=True, layers=2, hidden=[8], activation="relu", shift=True
    )
    log_q = q1(sample.y, sample.theta).log_prob(sample.x[:, None])[:, 0]
    expected = -(sample.log_r.exp() * log_q).mean()
    torch.testing.assert_close(objective.loss(q1), expected)


def test_the_papers_loss_leaves_out_draws_where_f_and_q_are_zero():
    class FromThePrior(GaussianTail):
        sample_training = Problem.sample_training

    target = Target(FromThePrior(1))
    objective = PaperObjective(target, generator(), size=500, validation_size=100, batch=500)
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


def test_the_training_set_is_drawn_again_after_the_last_epoch_and_not_before():
    objective = PaperObjective(
        Target(PROBLEM), generator(), size=20, validation_size=10, batch=10, epochs=3
    )
    q1 = FAMILIES["radial"](
        PROBLEM, reads_theta=True, layers=1, hidden=[4], activation="relu", shift=True
    )
    first = objective.train
    for _ in range(2 * 3):  # three epochs of two batches; a constant q cannot make a misstep
        objective.loss(q1)
        assert objective.train is first
    objective.loss(q1)
    assert objective.train is not first


def test_more_missteps_than_forgiven_draw_a_new_set():
    objective = PaperObjective(
        Target(PROBLEM), generator(), size=10, validation_size=10, batch=10, missteps=2
    )
    q1 = FAMILIES["radial"](
        PROBLEM, reads_theta=True, layers=0, hidden=[4], activation="relu", shift=True
    )
    first = objective.train
    refreshed = []
    for _ in range(5):
        with torch.no_grad():  # away from the data: the validation loss rises every epoch
            q1.conditioner.network[-1].bias -= 1.0
        objective.loss(q1)
        refreshed.append(objective.train is not first)
    # Epoch 1 sets the best, epochs 2 to 4 rise above it: three missteps, one more than forgiven.
    assert refreshed == [False, False, False, False, True]

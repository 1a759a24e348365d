"""Mixtures of Student's t: a density of mass one, close to the points that it is fitted to."""

import math

import torch

from amci_core.models.student_mixture import StudentMixture


def test_a_fit_has_mass_one_and_finds_both_modes():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4000, 2, dtype=torch.float64, generator=generator)
    x[::2] += torch.tensor([8.0, 0.0])
    weights = torch.full((len(x),), 1 / len(x), dtype=torch.float64)
    q = StudentMixture.fit(x, weights, 2, generator)
    torch.testing.assert_close(
        q.centres[:, 0].sort().values, x.new_tensor([0.0, 8.0]), atol=0.2, rtol=0
    )
    # E_q[r / q] = 1 for the normalized r = N(0, 1) at (0, 0), by q's own points.
    points = q.points(torch.rand(2, 20_000, 2, dtype=torch.float64, generator=generator))
    points = points.flatten(0, 1)
    log_r = -points.square().sum(-1) / 2 - math.log(2 * math.pi)
    ratio = (log_r - q.log_prob(points)).exp()
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / math.sqrt(len(ratio))

"""Held-out quality: exact where it can be, and not deceived by what a proposal leaves out."""

import math

import pytest
import torch

from amci_core.flows import FAMILIES
from amci_core.models import problem
from amci_core.training.quality import HeldOut, Quality
from amci_core.training.targets import JointTarget, Target

PROBLEM = problem("tail-1d")


def gaussian(*, mean_shift, log_scale_shift):
    """q2 = N(y / 2 + mean_shift, exp(2 log_scale_shift) / 2)."""
    q2 = FAMILIES["gaussian"](PROBLEM, reads_theta=False, hidden=[], activation="relu").double()
    conditioner, last = q2.conditioner, q2.conditioner.network[-1]
    with torch.no_grad():
        last.weight.copy_(torch.stack([conditioner.half_width / 2, torch.zeros(1)]))
        bias = [conditioner.centre.item() / 2 + mean_shift, 0.5 * math.log(0.5) + log_scale_shift]
        last.bias.copy_(torch.tensor(bias))
    return q2


def test_an_exact_proposal_has_no_variance_and_no_divergence():
    quality = HeldOut(JointTarget(PROBLEM)).quality(gaussian(mean_shift=0, log_scale_shift=0))
    assert quality.relative_variance_max < 1e-12
    assert abs(quality.divergence) < 1e-6


def test_a_wide_proposal_has_the_variance_that_the_integral_says():
    widening = 0.2
    quality = HeldOut(JointTarget(PROBLEM), cases=64, draws=20_000).quality(
        gaussian(mean_shift=0, log_scale_shift=widening)
    )
    # N(0, 1) under N(0, k^2): E_q[w^2] = k^2 / sqrt(2 k^2 - 1), KL = log k + 1 / (2 k^2) - 1/2.
    k2 = math.exp(2 * widening)
    assert quality.relative_variance == pytest.approx(k2 / math.sqrt(2 * k2 - 1) - 1, rel=0.05)
    assert quality.divergence == pytest.approx(widening + 1 / (2 * k2) - 0.5, rel=0.05)


def test_a_proposal_that_misses_the_target_is_not_taken_for_a_good_one():
    # q far to the left of theta, with a width at which its own draws hardly ever reach f.
    held_out = HeldOut(Target(PROBLEM), cases=32)
    narrow = gaussian(mean_shift=-1.0, log_scale_shift=-1.0)
    assert held_out.quality(narrow).relative_variance > 100


def test_quality_survives_json():
    quality = Quality(0.1, 0.2, math.inf, math.inf)
    assert Quality.from_json(quality.as_json()) == quality
    assert quality.as_json()["relative_variance_max"] is None

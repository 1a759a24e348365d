"""The paper's proposals for the tumour: draws that follow a density that integrates to one."""

import numpy as np
import pytest
import torch

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.training.objectives import PaperObjective
from amci_core.training.targets import JointTarget

PROBLEM = amci.problem("cancer")
Y, _ = PROBLEM.check([[500.0, 300.0], [900.0, 60.0]])


def made():
    q = FAMILIES["gamma-beta"](
        PROBLEM, size=500.0, spread=100.0, hidden=(16, 16), activation="relu"
    ).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in q.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.normal_(std=0.3 * fan_in**-0.5, generator=generator)
    return q


def test_the_density_integrates_to_one():
    density = made()(Y[0], None)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    # Nodes crowd at the ends, where a beta density may be singular.
    angle = np.pi * (nodes + 1) / 2
    c0, epsilon = 4000 * (nodes + 1), (1 - np.cos(angle)) / 2
    grid = np.stack(np.meshgrid(c0, epsilon, indexing="ij"), -1).reshape(-1, 2)
    with torch.inference_mode():
        q = density.log_prob(torch.as_tensor(grid)).exp().numpy().reshape(400, 400)
    mass = 4000 * weights @ q @ (weights * np.sin(angle) * np.pi / 4)
    assert mass == pytest.approx(1, abs=1e-3)


def test_the_papers_objective_lowers_its_loss():
    q = made().float()
    draws = torch.Generator().manual_seed(0)
    objective = PaperObjective(
        JointTarget(PROBLEM), draws, size=4000, validation_size=1000, batch=500
    )
    adam = torch.optim.Adam(q.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        losses.append(objective.loss(q))
        adam.zero_grad()
        losses[-1].backward()
        adam.step()
    first, last = (torch.stack(part).mean() for part in (losses[:8], losses[-8:]))
    assert last < first - 0.3

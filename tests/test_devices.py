"""The same code on the CPU and on a GPU, where there is one."""

import numpy as np
import pytest
import torch

import amci_core as amci
from amci_core.devices import AUTO, CPU, device_named

GPU = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="PyTorch finds no GPU on this machine"
)


def test_the_device_is_chosen_by_what_is_there():
    assert device_named("cpu") == CPU
    assert device_named(AUTO).type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert device_named(AUTO, points=1000) == CPU


@pytest.mark.parametrize("name", ["tpu", "cuda:99"])
def test_a_device_that_is_not_there_is_named(name):
    with pytest.raises(ValueError, match=rf"^device: expected auto, cpu .*got '{name}'"):
        device_named(name)
    with pytest.raises(ValueError, match=r"^device: expected auto, cpu"):
        amci.evaluate(amci.problem("tail-1d"), amci.load_proposals("tail-1d"), device=name)


@pytest.mark.slow
@GPU
@pytest.mark.parametrize("name", ["tail-5d", "gain-loss"])
def test_a_gpu_finds_the_errors_that_the_cpu_finds(name):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    cpu, gpu = (
        amci.evaluate(problem, proposals, cases=10, runs=200, draws=[100], device=device)
        for device in ("cpu", "cuda")
    )
    for estimator in ("amci", "snis-qm"):
        one, other = cpu.estimators[estimator], gpu.estimators[estimator]
        # The same cases: a median over 200 runs is known to some 15 %.
        ratio = np.divide(one["runs_median"], other["runs_median"])
        assert (np.abs(np.log(ratio)) < 0.5).all()


@pytest.mark.slow
@GPU
def test_proposals_that_are_no_networks_stay_on_the_cpu():
    oracle = amci.load_proposals("tail-1d", variant="oracle")
    assert oracle.to(torch.device("cuda")) is None
    with pytest.raises(ValueError, match=r"^device: expected cpu, since oracle"):
        amci.evaluate(amci.problem("tail-1d"), oracle, device="cuda")


@pytest.mark.slow
@GPU
def test_a_gpu_trains():
    term = amci.training.recipe("tail-1d", "spline").terms["q1_plus"]
    made = amci.training.Trainer(
        amci.problem("tail-1d"), "q1_plus", term, steps=20, seed=0, device=torch.device("cuda")
    )
    *_, last = made.run()
    assert last.ended

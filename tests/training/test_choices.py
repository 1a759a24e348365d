"""What can be chosen of a training, and how it is paused and stopped."""

import threading

import pytest
import torch

import amci_core as amci
from amci_core.training import Choices, form_names, learn, stream_learning
from amci_core.training import trainer as fits
from amci_core.training.clock import Clock


def families(proposals):
    """The family and the arguments of the flow that was trained for each proposal."""
    made = proposals.card["configuration"]["recipe"]
    return {name: entry["imitate"] for name, entry in made.items()}


def test_what_is_chosen_is_what_is_trained():
    proposals = learn(
        amci.problem("tail-1d"), steps=2, choices=Choices(family="spline", bins=5, width=12)
    )
    for family in families(proposals).values():
        assert family["family"] == "autoregressive-spline"
        assert family["arguments"]["bins"] == 5
        assert family["arguments"]["hidden"] == [12, 12]


@pytest.mark.slow
def test_a_term_without_the_chosen_form_keeps_its_own():
    made = families(
        learn(amci.problem("tail-1d"), steps=2, choices=Choices(family="half-line", bins=6))
    )
    assert made["q1_plus"]["family"] == "half-line-spline"
    assert made["q2"]["family"] == "autoregressive-spline"
    assert {family["arguments"]["bins"] for family in made.values()} == {6}


@pytest.mark.slow
def test_with_nothing_chosen_the_weights_are_the_usual_ones():
    problem = amci.problem("peak")
    usual, chosen = (learn(problem, steps=2, choices=each) for each in (None, Choices()))
    for a, b in zip(
        usual.q1_plus.state_dict().values(), chosen.q1_plus.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("tail-1d", ("half-line", "half-line from zero", "spline")),
        ("gain-loss", ("half-line", "half-line from zero", "spline")),
        ("tail-5d", ("by coordinate", "rotated", "along the radius")),
    ],
)
def test_the_forms_that_can_be_chosen(name, known):
    assert form_names(amci.problem(name)) == known


@pytest.mark.parametrize(
    ("odd", "name"),
    [
        ({"bins": 3}, "bins"),
        ({"width": 0}, "width"),
    ],
)
def test_a_number_out_of_range_is_refused_by_its_name(odd, name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        Choices(**odd)


def test_a_form_of_another_problem_is_refused():
    with pytest.raises(
        ValueError, match=r"^family: expected one of half-line, half-line from zero, spline"
    ):
        stream_learning(amci.problem("tail-1d"), steps=2, choices=Choices(family="rotated"))


def test_a_paused_clock_stands_still_and_whoever_looks_waits():
    time, looked_at, seen = [0.0], threading.Event(), []

    def seconds():
        now = time[0]
        looked_at.set()
        return now

    clock = Clock(seconds)
    clock.pause()
    looking = threading.Thread(target=lambda: seen.append(clock.now()))
    looking.start()
    looked_at.wait()
    time[0] = 5.0
    assert not seen
    clock.go_on()
    looking.join()
    assert seen == [0.0]


@pytest.fixture
def clock(monkeypatch):
    """A clock of its own for the steps of fits."""
    created = Clock()
    monkeypatch.setattr(fits, "now", created.now)
    return created


def test_a_stopped_training_keeps_the_best_so_far(clock):
    reports = []

    def report(progress):
        reports.append(progress)
        if len(reports) == 3:
            clock.stop()

    proposals = learn(amci.problem("tail-1d"), steps=100, progress=report)
    assert len(reports) == 3
    assert "verdict" not in proposals.card["configuration"]
    assert amci.estimate(amci.problem("tail-1d"), proposals, 1.0, 2.0, draws=100).value > 0

"""The check of proposals: good ones are called so, others are not, and it caps what follows."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from imperfect import Normal, imperfect

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.training.verdict import checked, in_words

TAIL = amci.problem("tail-1d")
ORACLE = amci.load_proposals("tail-1d", variant="oracle")
FEW = {"cases": 8, "draws": 2000}


def with_q1(mean, scale):
    return Proposals(
        problem="tail-1d",
        variant="mine",
        q1_plus=Normal(mean, scale),
        q1_minus=None,
        q2=ORACLE.q2,
    )


def test_exact_proposals_are_good_everywhere():
    found = checked(TAIL, ORACLE, **FEW)
    assert {case["level"] for case in found["cases"]} == {0}
    assert all(case["witnessed"] for case in found["cases"])
    assert found["text"].startswith("reliable at all 8 held-out cases: at worst ESS 1,000")
    json.dumps(found, allow_nan=False)


def test_where_a_proposal_is_bad_it_says_up_to_where_it_is_good():
    # Its centre stays behind where theta passes 2.
    behind = with_q1(lambda y, theta: torch.maximum(y / 2, theta).clamp(max=2.0) + 0.3, 0.5)
    found = checked(TAIL, behind, cases=30, draws=2000)
    levels = np.array([case["level"] for case in found["cases"]])
    theta = np.array([case["theta"][0] for case in found["cases"]])
    assert (levels[theta < 2.0] == 0).all()
    assert (levels[theta > 4.0] == 2).all()
    assert found["text"].startswith("reliable for theta below ")
    assert "beyond it do not trust" in found["text"]


def test_a_bound_that_one_case_may_lie_beyond_by_chance_is_none():
    bad = {"y": [1.0], "share": 0.01, "k": None, "missed": 0.5, "level": 2}
    cases = [{**bad, "theta": [theta]} for theta in (3.5, 3.7)]
    good = {**bad, "share": 0.9, "missed": 0.0, "level": 0}
    cases += [{**good, "theta": [theta]} for theta in np.linspace(0, 3, 28)]
    text = in_words(TAIL, {"draws": 1000, "cases": cases})
    assert text.startswith("reliable for theta below 3.25")
    alone = in_words(TAIL, {"draws": 1000, "cases": cases[1:]})
    assert alone.startswith("do not trust at 1 of 29 held-out cases: at worst ESS 10 of 1,000")


def test_what_proposals_miss_is_seen_by_particles_that_they_did_not_draw():
    # A narrow normal about a point of the tail: its own weights look even.
    narrow = with_q1(lambda y, theta: torch.maximum(y / 2, theta) + 0.3, 0.02)
    found = checked(TAIL, narrow, **FEW)
    assert {case["level"] for case in found["cases"]} == {2}
    assert max(case["missed"] for case in found["cases"]) > 0.3


def test_the_check_sets_what_verdicts_ask_near_its_cases():
    cases = [
        {"y": [1.0], "theta": [theta], "share": share, "missed": missed, "level": level}
        for theta, share, missed, level in (
            (1.0, 0.99, 0.0, 0),
            (2.0, 0.5, 0.0, 0),
            (3.0, 0, 0.2, 2),
        )
    ]
    card = {"configuration": {"verdict": {"draws": 1000, "cases": cases}}}
    theta = [[1.1], [2.1], [2.9], [4.5]]
    e = amci.estimate(TAIL, replace(ORACLE, card=card), [[1.0]] * 4, theta, draws=500)
    # Hardly any of proposals that were all but exact; as of unknown ones beyond the cases.
    assert e.evidence.needed.tolist() == [2, 28, 28, 28]
    assert e.evidence.defensive.tolist() == [0, 10, 10, 3]
    # It does not speak for one of the proposals alone.
    alone = amci.estimate(TAIL, replace(ORACLE, card=card), 1.0, 1.1, estimator="snis-q2")
    assert alone.evidence.needed == 28


@pytest.mark.parametrize("name", ["tail-1d", "gain-loss", "peak"])
def test_shipped_problems_of_all_kinds_are_checked(name):
    problem = amci.problem(name)
    found = checked(problem, amci.load_proposals(name), cases=2, draws=2000)
    assert len(found["cases"]) == 2
    assert in_words(problem, found) == found["text"]


def test_a_proposal_of_one_s_own_is_checked_as_any_other():
    assert "held-out cases" in checked(TAIL, imperfect(), **FEW)["text"]

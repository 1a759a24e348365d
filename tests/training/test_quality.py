"""Quality: exact where it can be, not deceived by what proposals miss, and stored in cards."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from imperfect import Normal, gaussian

import amci_core as amci
from amci_core.flows.mixture import DefensiveComponent
from amci_core.training.quality import (
    MIXTURE_WEIGHTS,
    HeldOut,
    in_words,
    long_check,
    mixture_weight,
)
from amci_core.training.targets import TARGETS, JointTarget, Target

PROBLEM = amci.problem("tail-1d")
ORACLE = amci.load_proposals("tail-1d", variant="oracle")
FEW = {"cases": 8, "draws": 2000}


@pytest.mark.parametrize("widening", [0.0, 0.2])
def test_a_wide_proposal_has_the_variance_that_the_integral_says_and_an_exact_one_none(widening):
    quality = HeldOut(JointTarget(PROBLEM), cases=64, draws=10_000).quality(
        gaussian(log_scale_shift=widening)
    )
    # N(0, 1) under N(0, k^2): E_q[w^2] = k^2 / sqrt(2 k^2 - 1), KL = log k + 1 / (2 k^2) - 1/2.
    k2 = math.exp(2 * widening)
    expected = [k2 / math.sqrt(2 * k2 - 1) - 1, widening + 1 / (2 * k2) - 0.5]
    measured = [quality.relative_variance, quality.divergence]
    assert measured == pytest.approx(expected, rel=0.05, abs=1e-6)


def test_a_proposal_that_misses_the_target_is_not_taken_for_a_good_one():
    # q far to the left of theta, with a width at which its own draws hardly ever reach f.
    held_out = HeldOut(Target(PROBLEM), cases=32)
    narrow = gaussian(mean_shift=-1.0, log_scale_shift=-1.0)
    assert held_out.quality(narrow).relative_variance > 100


@pytest.mark.parametrize(
    ("factor", "weight"), [(1.0, MIXTURE_WEIGHTS[0]), (0.7, MIXTURE_WEIGHTS[-1]), (0.2, 1.0)]
)
def test_a_good_flow_needs_little_a_narrow_one_much_and_the_prior_may_be_better(factor, weight):
    target = TARGETS["q2"](PROBLEM)
    defence = DefensiveComponent(target.problem, target.term)
    flow = gaussian(log_scale_shift=math.log(factor))
    assert mixture_weight(flow, defence, target) == weight


def with_q1(mean, scale):
    return replace(ORACLE, q1_plus=Normal(mean, scale), q1_complement=None)


def test_exact_proposals_are_good_everywhere():
    found = long_check(PROBLEM, ORACLE, **FEW)
    assert {case["level"] for case in found["cases"]} == {0}
    assert found["text"].startswith("reliable at all 8 held-out cases: at worst ESS 1,000")
    assert "; 8 of 30 checked; relative error of 1,000 draws below 0.01 %" in found["text"]
    assert found["text"].endswith("%")  # nothing more is needed
    whole = in_words(found | {"cases": [*found["cases"], *found["cases"][:1] * 22]})
    assert "checked" not in whole
    json.dumps(found, allow_nan=False)


def test_where_a_proposal_is_bad_it_is_not_to_be_trusted():
    # Its centre stays behind where theta passes 2.
    behind = with_q1(lambda y, theta: torch.maximum(y / 2, theta).clamp(max=2.0) + 0.3, 0.5)
    found = long_check(PROBLEM, behind, cases=30, draws=2000)
    for case in found["cases"]:
        assert case["level"] in ((0,) if case["theta"][0] < 2 else (0, 1, 2))
        assert case["theta"][0] < 4 or case["level"] == 2
    bad = sum(case["level"] > 0 for case in found["cases"])
    assert found["text"].startswith(f"do not trust at {bad} of 30 held-out cases: at worst ESS ")


def test_what_proposals_miss_is_seen_by_particles_that_they_did_not_draw():
    # A narrow normal about a point of the tail: its own weights look even.
    narrow = with_q1(lambda y, theta: torch.maximum(y / 2, theta) + 0.3, 0.02)
    found = long_check(PROBLEM, narrow, **FEW)
    assert {case["level"] for case in found["cases"]} == {2}
    assert max(case["missed"] for case in found["cases"]) > 0.3
    assert found["text"].endswith(". Define sample_defensive or support_plus, or raise minutes")


def test_the_check_says_what_error_a_query_has():
    wide = with_q1(lambda y, theta: torch.maximum(y / 2, theta), 1.0)
    found = long_check(PROBLEM, wide, cases=30, draws=4000)
    case = found["cases"][0]
    errors = [
        amci.estimate(PROBLEM, wide, case["y"], case["theta"], draws=1000, seed=seed).value
        for seed in range(200)
    ]
    truth = float(PROBLEM.truth(case["y"], case["theta"]))
    measured = float(np.std(errors) / truth)
    # 200 runs know a standard deviation to 5 %.
    assert 0.8 < case["error"] / measured < 1.25


def with_check(cases):
    """Exact proposals with the cases of a check in their card."""
    checked = {"configuration": {"verdict": {"draws": 1000, "cases": cases}}}
    return replace(ORACLE, card=checked)


def test_the_check_sets_what_verdicts_ask_near_its_cases():
    exact, half, bad = (
        {"y": [1.0], "theta": [theta], "share": share, "missed": missed, "level": level}
        for theta, share, missed, level in ((1, 0.99, 0, 0), (2, 0.5, 0, 0), (3, 0, 0.2, 2))
    )
    unseen = half | {"particles": False}
    for cases, needed, defensive in (
        # Hardly any of proposals that were all but exact; as of unknown ones beyond the cases.
        ([exact, half, bad], [2, 28, 28, 28], [0, 70, 70, 3]),
        # Without the bad case, and with cases enough, it answers whether the draws could know.
        (10 * [exact, half], [2, 28], [0, 0]),
        ([exact, half], [2, 28], [0, 10]),
        # Nothing but the proposals' own draws looked at the second case.
        (10 * [exact, unseen], [2, 28], [0, 10]),
    ):
        n, theta = len(needed), [[1.1], [2.1], [2.9], [4.5]]
        e = amci.estimate(PROBLEM, with_check(cases), [[1.0]] * n, theta[:n], draws=500)
        assert e.requirements.needed.tolist() == needed
        assert e.requirements.defensive.tolist() == defensive
    # It does not speak for one of the proposals alone.
    alone = amci.estimate(PROBLEM, with_check([exact]), 1.0, 1.1, estimator="snis-q2")
    assert alone.requirements.needed == 28

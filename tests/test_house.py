"""A new problem, flow or estimator is one class and one line."""

import numpy as np
import torch
from imperfect import NormalDensity
from own_problems import WRITTEN_OUT
from torch import nn

import amci_core as amci
import amci_core.models
from amci_core.estimators import ESTIMATORS, Tabled, tables
from amci_core.estimators.base import Estimator, Prepared
from amci_core.flows import FAMILIES, Proposals, Trainable


class AffineNormal(Trainable):
    """Normal proposals whose centre is affine in y."""

    def __init__(self, problem):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def initialize(self, generator):
        nn.init.constant_(self.weight, 0.5)

    def at(self, y, theta):
        return NormalDensity(self.weight * y, 1.0)


class Weighted(Estimator):
    """Each term from each proposal, in proportion to its draws: more of these for q2."""

    def counts(self, totals, present, defensive=None):
        even = super().counts(totals, present, defensive)
        moved = even[:, 0] // 2
        even[:, 0] -= moved
        even[:, 2] += moved
        return even

    def apply(self, draws, counts=None):
        share = draws.count(0) / (draws.count(0) + draws.count(2))
        return Prepared(tables.reuse(share, share), draws, counts)


def test_a_problem_a_flow_and_an_estimator_are_one_class_and_one_line_each(tmp_path, monkeypatch):
    file = tmp_path / "call.py"
    file.write_text(
        WRITTEN_OUT.format(kind="Call", name="call").replace("0.0, 4.0, ", "0.0, 1.0, ")
    )
    kind = type(amci.load_problem(str(file)))
    monkeypatch.setitem(amci_core.models._PROBLEMS, "call", kind)
    monkeypatch.setitem(FAMILIES, "affine-normal", AffineNormal)
    monkeypatch.setitem(ESTIMATORS, "halves", Tabled(tables.reuse(0.5, 0.5)))
    monkeypatch.setitem(ESTIMATORS, "weighted", Weighted())

    problem = amci.problem("call")
    assert "call" in amci.problems()
    # Untrained proposals do here; they go to a folder and come back by their family's name.
    q1, q2 = (FAMILIES["affine-normal"](problem) for _ in range(2))
    q1.initialize(None)
    q2.initialize(None)
    entries = {k: {"family": "affine-normal", "arguments": {}} for k in ("q1_plus", "q2")}
    card = {"configuration": {"proposals": entries, "recipe": {}, "seed": 0}}
    made = Proposals("call", "mine", q1, None, q2, card, fingerprint=problem.fingerprint)
    loaded = amci.load_proposals("call", folder=made.save(tmp_path / "made"))

    names = ["amci", "halves", "weighted", "bound"]
    at = {"cases": 3, "runs": 40, "draws": [20, 2000], "seed": 1}
    found = amci.evaluate(problem, loaded, estimators=names, **at)
    assert list(found.estimators) == names
    for name in names[:3]:
        few, many = found.estimators[name]["remse_median"]
        # Errors fall like one over the draws, a factor of 100 up to noise.
        assert few / 1000 < many < few / 10
    mu = problem.truth(1.0, 0.5)
    for name in ("halves", "weighted"):
        e = amci.estimate(problem, loaded, 1.0, 0.5, draws=4000, estimator=name, seed=2)
        assert e.draws == 4000
        np.testing.assert_allclose(e.value, mu, atol=5 * e.standard_error)
        enough = amci.estimate_to(problem, loaded, 1.0, 0.5, relative_error=0.2, estimator=name)
        assert enough.reached
        np.testing.assert_allclose(enough.value, mu, rtol=0.4)

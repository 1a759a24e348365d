"""A new component is one file and one line; no view knows which problem it shows."""

import ast
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import amci_core as amci
import amci_core.models
from amci_core.estimators import ESTIMATORS, Tabled, tables
from amci_core.flows import FAMILIES, Proposals
from amci_core.training.objectives import OBJECTIVES
from amci_core.training.trainer import TermRecipe, Trainer

APP = Path(amci.__file__).parents[1] / "app" / "amci_explorer"
PROBLEM = '''
"""What is a call option worth on a return that is seen through noise?"""
import math

import torch
from torch.distributions import Normal

from amci_core.models import LineProblem, Variable


class Call(LineProblem):
    name = "call"
    title = "A call"
    description = "What is an option worth?"
    formula = "E[(x - theta)_+]"
    nonnegative = True
    x = Variable("x", 1, -math.inf, math.inf, "a return", typical_range=(-3.0, 3.0))
    y = Variable("y", 1, -6.0, 6.0, "a noisy return", typical_range=(-3.0, 3.0))
    theta = Variable("theta", 1, -1.0, 1.0, "the strike", typical_range=(-1.0, 1.0))

    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x).sum(-1)

    def log_likelihood(self, x, y):
        return Normal(x, 1.0).log_prob(y).sum(-1)

    def f(self, x, theta):
        return torch.relu(x - theta).squeeze(-1)

    def sample_prior(self, n, generator):
        return torch.randn(n, 1, generator=generator)

    def sample_likelihood(self, x, generator):
        return (x + torch.randn(x.shape, generator=generator)).clamp(-6, 6)

    def sample_theta(self, n, generator):
        return 2 * torch.rand(n, 1, generator=generator) - 1
'''

FLOW = '''
"""Logistic proposals whose centre is affine in y."""
import torch
from torch import nn

from amci_core.flows import ConditionalDensity, Trainable


class LogisticDensity(ConditionalDensity):
    def __init__(self, centre):
        super().__init__(centre.shape[:-1])
        self.centre = centre

    def draw(self, n, generator=None):
        shape = (*self.batch_shape, n, 1)
        u = torch.rand(shape, dtype=self.centre.dtype, generator=generator)
        x = self.centre[..., None, :] + u.logit(eps=1e-12)
        return x, self.log_prob(x)

    def log_prob(self, x):
        z = x - self.centre[..., None, :]
        return (-z - 2 * nn.functional.softplus(-z)).sum(-1)


class AffineLogistic(Trainable):
    def __init__(self, problem):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def initialize(self, generator):
        nn.init.constant_(self.weight, 0.5)

    def at(self, y, theta):
        return LogisticDensity(self.weight * y)
'''

ESTIMATOR = '''
"""Each term from each proposal, in proportion to its draws: more of these for q2."""
from amci_core.estimators import tables
from amci_core.estimators.base import Estimator, Prepared


class Weighted(Estimator):
    def counts(self, totals, present, defensive=None):
        even = super().counts(totals, present, defensive)
        moved = even[:, 0] // 2
        even[:, 0] -= moved
        even[:, 2] += moved
        return even

    def apply(self, draws, counts=None):
        share = draws.count(0) / (draws.count(0) + draws.count(2))
        return Prepared(tables.reuse(share, share), draws, counts)
'''

OBJECTIVE = '''
"""The forward KL divergence, on fresh draws of the prior weighted by f."""
import torch

from amci_core.training.objectives import Objective


class ForwardKL(Objective):
    @staticmethod
    def points(settings):
        return settings["draws"]

    def __init__(self, target, generator, *, draws):
        super().__init__(target, generator)
        self.draws = draws

    def loss(self, q):
        y, theta, x, log_r = self.target.sample(self.draws, self.generator, "importance")
        self.last = x[:, None], y, theta
        log_q = q.at(y, theta).log_prob(x[:, None])[:, 0]
        log_q = log_q.masked_fill(log_r == -torch.inf, 0.0)
        return -(log_r.softmax(0) * log_q).sum()
'''


@pytest.fixture
def new(tmp_path):
    """Imports one file with that text."""

    def make(name: str, text: str):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        found = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return module

    return make


def test_a_problem_a_flow_and_an_estimator_are_one_file_and_one_line_each(
    new, tmp_path, monkeypatch
):
    monkeypatch.setitem(amci_core.models._PROBLEMS, "call", new("call", PROBLEM).Call)
    monkeypatch.setitem(FAMILIES, "affine-logistic", new("logistic", FLOW).AffineLogistic)
    monkeypatch.setitem(ESTIMATORS, "halves", Tabled(tables.reuse(0.5, 0.5)))
    monkeypatch.setitem(ESTIMATORS, "weighted", new("weighted", ESTIMATOR).Weighted())

    problem = amci.problem("call")
    assert "call" in amci.problems()
    # Untrained proposals do here; they go to a folder and come back by their family's name.
    q1, q2 = (FAMILIES["affine-logistic"](problem) for _ in range(2))
    q1.initialize(None)
    q2.initialize(None)
    entries = {k: {"family": "affine-logistic", "arguments": {}} for k in ("q1_plus", "q2")}
    card = {"configuration": {"proposals": entries, "recipe": {}, "seed": 0}}
    made = Proposals("call", "mine", q1, None, q2, card, fingerprint=problem.fingerprint)
    loaded = amci.load_proposals("call", folder=made.save(tmp_path / "made"))

    found = amci.evaluate(
        problem,
        loaded,
        cases=3,
        runs=40,
        draws=[20, 2000],
        estimators=["amci", "halves", "weighted", "bound"],
        seed=1,
    )
    assert list(found.estimators) == ["amci", "halves", "weighted", "bound"]
    for name in ("amci", "halves", "weighted"):
        few, many = found.estimators[name]["remse_median"]
        # Errors fall like one over the draws, a factor of 100 up to noise.
        assert few / 1000 < many < few / 10
    mu = problem.truth(1.0, 0.0)
    for name in ("halves", "weighted"):
        error = amci.estimate(problem, loaded, 1.0, 0.0, draws=4000, estimator=name, seed=2)
        assert error.draws == 4000
        np.testing.assert_allclose(error.value, mu, atol=5 * error.standard_error)
        enough = amci.estimate_to(problem, loaded, 1.0, 0.0, relative_error=0.2, estimator=name)
        assert enough.reached
        np.testing.assert_allclose(enough.value, mu, rtol=0.4)


def test_an_objective_is_one_file_and_one_line(new, monkeypatch):
    monkeypatch.setitem(OBJECTIVES, "forward-kl", new("forward", OBJECTIVE).ForwardKL)
    term = TermRecipe("gaussian", {"hidden": [], "activation": "relu", "reads_theta": False},
                      "forward-kl", {"draws": 2000}, learning_rate=0.2)  # fmt: skip
    trainer = Trainer(amci.problem("tail-1d"), "q2", term, steps=400, seed=0)
    first, *_, last = trainer.run()
    # The posterior of tail-1d is Gaussian, its mean affine in y.
    assert last.quality.divergence < min(0.01, first.quality.divergence / 10)


# What is made for a problem is chosen by its type here, and nowhere else.
REGISTRY = "pictures.py"


def kinds_of_problems() -> set[str]:
    """The names of all classes of problems."""
    found, new = set(), {amci_core.models.Problem}
    while new:
        found |= {kind.__name__ for kind in new}
        new = {below for kind in new for below in kind.__subclasses__()}
    return found


def knows_problems(node: ast.AST, kinds: set[str], names: set[str]) -> bool:
    """Whether code asks which problem it has, or takes for granted what it asserts."""
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
        of = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
        return bool(of & kinds)
    if isinstance(node, ast.Compare):
        sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
        texts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
        return any(s.endswith("problem.name") for s in sides) and bool(texts & names)
    return False


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("assert problem", True),
        ("isinstance(problem, GaussianTail)", True),
        ("isinstance(problem, (int, tail.LineProblem, LineProblem))", True),
        ("problem.name in ('tail-1d', 'tail-5d')", True),
        ("state.problem.name == 'peak'", True),
        ("isinstance(found, ErrorCurves)", False),
        ("state.problem.name == name", False),
    ],
)
def test_code_that_knows_problems_is_recognised(code, found):
    nodes = ast.walk(ast.parse(code))
    known = kinds_of_problems(), set(amci.problems())
    assert any(knows_problems(node, *known) for node in nodes) == found


def test_no_room_of_the_page_but_the_registry_knows_problems():
    known = kinds_of_problems(), set(amci.problems())
    for path in sorted(APP.rglob("*.py")):
        if path.name != REGISTRY:
            for node in ast.walk(ast.parse(path.read_text())):
                assert not knows_problems(node, *known), f"{path}:{node.lineno}"


# Names with which Panel documents its custom components.
DOCUMENTED = {"_esm", "_stylesheets"}


def foreign_private_names(tree: ast.AST) -> set[str]:
    """The private names that code imports, or asks an object for, and does not make itself."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("amci_"):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) != "os":
            found.add(node.attr)
    return set(filter(is_private, found - names_made_by(tree)))


def overridden_private_names(tree: ast.AST, module: ModuleType) -> set[str]:
    """The private names of Panel and Bokeh that code defines anew in classes of its own."""
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
    bases = {base for kind in kinds for base in kind.__mro__}
    theirs = {n for base in bases if base.__module__.startswith("panel") for n in vars(base)}
    return set(filter(is_private, theirs & names_made_by(tree)))


def is_private(name: str) -> bool:
    # Python's own name for a method of named tuples is public.
    return name.startswith("_") and not name.startswith("__") and name != "_replace"


def names_made_by(tree: ast.AST) -> set[str]:
    """The names that code gives to functions, variables and attributes of its own objects."""
    made = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            own = isinstance(node, ast.Name) or ast.unparse(node.value) in ("self", "cls")
            made |= {node.id if isinstance(node, ast.Name) else node.attr} if own else set()
    return made


def test_private_names_of_panel_and_bokeh_stand_in_one_file():
    found = {}
    for path in sorted(APP.rglob("*.py")):
        place = path.relative_to(APP)
        tree = ast.parse(path.read_text())
        names = foreign_private_names(tree)
        if place.parts[0] == "views":
            module = ".".join(("amci_explorer", *place.with_suffix("").parts))
            names |= overridden_private_names(tree, importlib.import_module(module))
        if names := names - DOCUMENTED:
            found[place.as_posix()] = names
    assert found.pop("server/compat.py")
    assert not found

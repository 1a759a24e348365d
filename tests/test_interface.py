"""The names that `import amci_core` promises."""

import pydoc
import re
import tomllib
from pathlib import Path

import pytest
from torch import Generator

import amci_core as amci
from amci_core.estimation.sampling import Sampler
from amci_core.training import recipe


def test_every_public_name_is_there():
    for name in dir(amci):
        assert getattr(amci, name) is not None
        assert re.search(rf"^.*\b{name}\b.*  ", amci.__doc__, re.MULTILINE), name
    assert len(pydoc.render_doc(amci).splitlines()) < 100
    with pytest.raises(AttributeError, match="No amci_core attribute estimat"):
        _ = amci.estimat


TAIL = amci.problem("tail-1d")
ORACLE = amci.load_proposals(TAIL, variant="oracle")
AT = {"y": 1.0, "theta": 3.0}
# Every public function of a problem, and of its proposals.
OF_A_PROBLEM = {
    "check": lambda p: amci.check(p),
    "from_distributions": lambda p: amci.Proposals.from_distributions(p, q1_plus=ORACLE.q1_plus),
    "from_defensive": lambda p: amci.Proposals.from_defensive(p),
    "learn": lambda p: amci.learn(p, steps=1),
    "read_cases": lambda p: amci.read_cases("cases.csv", p),
    "reference": lambda p: amci.reference_value(p, **AT),
    "with_target": lambda p: amci.with_target(p, "x1"),
}
OF_BOTH = {
    "amortization_map": lambda p, q: amci.amortization_map(p, q, size=2),
    "error_curves": lambda p, q: amci.error_curves(p, q, **AT, runs=2),
    "estimate": lambda p, q: amci.estimate(p, q, **AT),
    "estimate_to": lambda p, q: amci.estimate_to(p, q, **AT),
    "evaluate": lambda p, q: amci.evaluate(p, q, cases=2, runs=2),
    "reuse_errors": lambda p, q: amci.reuse_errors(p, q, **AT, alphas=[1.0], betas=[0.0]),
}
NO_PROBLEMS = [
    (type(TAIL), "a Problem .*, got <class .*GaussianTail'>. Call the class"),
    (None, "a Problem .*, got None"),
    (ORACLE, "a Problem .*, got Proposals"),
    ("tail-1", "one of tail-1d, .* got 'tail-1'"),
]
OF_ANY = OF_A_PROBLEM | {name: lambda p, of=call: of(p, ORACLE) for name, call in OF_BOTH.items()}


@pytest.mark.parametrize("call", OF_ANY.values(), ids=OF_ANY)
def test_what_is_no_problem_is_named(call):
    for given, message in NO_PROBLEMS:
        with pytest.raises(ValueError, match=f"^problem: expected {message}"):
            call(given)


@pytest.mark.parametrize("call", OF_BOTH.values(), ids=OF_BOTH)
def test_what_are_no_proposals_is_named(call):
    with pytest.raises(ValueError, match=r"^proposals: expected .*load_proposals.*, got"):
        call(TAIL, TAIL)


def test_a_shipped_problem_and_its_name_give_the_same():
    assert amci.estimate("tail-1d", **AT).value == amci.estimate(TAIL, **AT).value
    assert amci.with_target("tail-1d", "x1").name == amci.with_target(TAIL, "x1").name


RESULTS = {
    "a case": lambda: amci.error_curves(TAIL, ORACLE, **AT, runs=2)["amci"],
    "an estimate": lambda: amci.estimate(TAIL, ORACLE, **AT),
    "an evaluation": lambda: amci.evaluate(TAIL, ORACLE, cases=2, runs=2),
    "curves": lambda: amci.error_curves(TAIL, ORACLE, **AT, runs=2),
    "draws": lambda: Sampler(TAIL, ORACLE, *TAIL.check(**AT)).draw([5, 0, 5], Generator()),
    "a density": lambda: amci.load_proposals("tail-1d").q2(*TAIL.check(**AT)),
    "a map": lambda: amci.amortization_map(TAIL, ORACLE, size=2),
    "a problem": lambda: TAIL,
    "proposals": lambda: ORACLE,
    "reference values": lambda: amci.reference_value(
        TAIL, [[0.0], [1.0]], [[1.0], [2.0]], draws=1000
    ),
    "a recipe": lambda: recipe("tail-1d", "spline"),
    "reuse": lambda: amci.reuse_errors(TAIL, ORACLE, **AT, alphas=[1.0], betas=[0.0], runs=500),
    "a model card": lambda: amci.load_proposals("tail-1d").card,
    "a checkpoint": lambda: amci.load_history("tail-1d")[0],
    "terms": lambda: amci.estimate(TAIL, ORACLE, **AT).terms,
    "diagnostics": lambda: amci.estimate(TAIL, ORACLE, **AT).diagnostics,
    "a verdict": lambda: amci.estimate(TAIL, ORACLE, **AT).verdict,
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_a_result_prints_as_a_few_lines(result):
    text = repr(result())
    assert " at 0x" not in text
    assert len(text) < 1500
    assert "array(" not in text


def test_a_map_and_a_curve_print_as_a_line():
    found = amci.amortization_map(TAIL, ORACLE, size=2)
    text = "AmortizationMap: 4 of 4 cases, y by theta; least relative ESS: E1_plus 1, E2 1"
    assert repr(found) == text
    curve = RESULTS["a case"]()
    assert re.fullmatch(r"Curve: 2 runs, ReMSE \(median\) (\S+, )+\S+ by budget", repr(curve))


def test_the_version_is_that_of_the_project():
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == amci.__version__

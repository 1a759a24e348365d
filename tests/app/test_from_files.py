"""Problems from files: what is listed, what is said of others, and which proposals they have."""

import gc
import os
import pickle
import shutil
from weakref import WeakKeyDictionary

import pytest
from amci_explorer.compute.requests import Request
from amci_explorer.problems import registry, session_proposals
from amci_explorer.problems.registry import FILES, load_file, serve_files, troubles
from amci_explorer.server import serve
from amci_explorer.shell import page
from amci_explorer.state.case import Case
from amci_explorer.views.handles import CaseControls
from amci_explorer.views.slider import Slider
from amci_explorer.words.script import script
from amci_explorer.words.settings import note
from own_problems import WRITTEN_OUT

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.training import learn


@pytest.fixture
def fresh(monkeypatch):
    """No file has been read."""
    monkeypatch.setattr(registry, "OWN", {})
    monkeypatch.setattr(registry, "_READ", {})
    monkeypatch.setattr(registry, "_LISTED", [])
    registry._read_all.cache_clear()
    monkeypatch.setattr(session_proposals, "_ADDED", WeakKeyDictionary())
    monkeypatch.setattr(session_proposals, "_GIVEN", set())
    monkeypatch.setenv(FILES, "")


MODEL = """
from torch.distributions import Gamma, Normal, Poisson

import amci_core as amci

PROBLEM = amci.model(
    name="{name}", prior={prior}, likelihood={likelihood}, f="{f}", theta={theta}
)
"""
NORMAL = {
    "prior": "Normal(0.0, 1.0)",
    "likelihood": "lambda x: Normal(x, 0.5)",
    "f": "x > theta",
    "theta": "Normal(0.0, 1.0)",
}


def written(folder, name, **parts):
    """A file with a problem."""
    path = folder / f"{name}.py"
    path.write_text(MODEL.format(name=name, **NORMAL | parts))
    return path


def served(folder, name, **parts):
    """The case that a problem from a file opens with."""
    serve_files([str(written(folder, name, **parts))])
    assert troubles() == []
    return Case(name)


@pytest.mark.parametrize("text", ["", "mine", "mine.txt", "mine.py=", "mine.py:Mine Two"])
def test_what_is_no_file_is_refused(text):
    with pytest.raises(ValueError, match=r"expected FILE\.py, FILE\.py:NAME or FILE\.py=FOLDER"):
        load_file(text)


def test_files_are_listed_or_said_what_is_wrong_with_them(fresh, tmp_path, capsys):
    good = written(tmp_path, "good")
    broken, wrong, warned = (tmp_path / f"{name}.py" for name in ("broken", "wrong", "warned"))
    broken.write_text("def f(:\n")
    text = WRITTEN_OUT.format(kind="Own", name="warned")
    warned.write_text(text.replace(", typical_range=(-4.0, 4.0)", ""))
    wrong.write_text(text.replace(".to(x.dtype).squeeze(-1)", ""))
    double = tmp_path / "double.py"
    double.write_text(good.read_text())
    serve_files([*map(str, (good, wrong, broken, warned, double)), f"{good}=nowhere", "x"])
    assert registry.problems()[-2:] == ("good", "warned")
    assert registry.opening() == "good"
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"AMCI Explorer: {line}" for line in troubles()]
    assert [line.partition(" ")[0] for line in troubles()] == [
        *("wrong.py:", "wrong.py:", "broken.py", "double.py:", "no", "problem:")
    ]
    assert "wrong.py: f: expected a float64 tensor" in troubles()[0]
    assert "broken.py cannot be read: line 1" in troubles()[2]
    assert str(tmp_path) not in "".join(troubles()[:4])
    # Workers that are started later find those that are listed; nothing is read or said twice.
    assert os.environ[FILES] == os.pathsep.join(map(str, (good, warned)))
    serve_files([str(good), "x"])
    assert capsys.readouterr().err == ""


def test_without_proposals_the_defensive_density_draws_and_that_is_said(fresh, tmp_path):
    likelihood = "lambda x: Normal(x[..., 0], 0.5)"
    parts = {"prior": "[Normal(0.0, 1.0)] * 20", "likelihood": likelihood, "f": "sum(x) > theta1"}
    state = served(tmp_path, "good", **parts)
    assert state.options("variant") == {"defensive": "defensive"}
    assert "No proposals have been trained" in note("good", state.variant)
    assert "amci.load_problem('good.py')" in script(state.settings)
    assert "variant='defensive'" in script(state.settings)
    found = Request("summary", state.settings).part(0)[1]
    assert {row.name for row in found.rows} >= {"amci", "snis-q2"}


@pytest.mark.slow
def test_proposals_lie_in_the_folder_of_the_files_name(fresh, tmp_path):
    path = written(tmp_path, "good")
    problem = amci.load_problem(path)
    learn(problem, steps=2).save(tmp_path / "good" / "first")
    shutil.copytree(tmp_path / "good" / "first", tmp_path / "good" / "second")
    (tmp_path / "good" / "third").mkdir()
    (tmp_path / "good" / "third" / "config.json").write_text("{}")
    serve_files([str(path)])
    variants = registry.variants("good")
    assert len(variants) == 2
    assert variants[1] == "second"
    assert note("good", variants[0]) == ""
    assert troubles()[0].startswith("good.py: proposals that cannot be used: third: ")
    text = script(Case("good").settings)
    assert "amci.load_proposals(problem, folder='good/first')" in text


def test_proposals_that_are_added_belong_to_a_page_and_are_sent_to_a_worker(fresh, tmp_path):
    state, other = served(tmp_path, "good"), Case("good")
    made = Proposals.from_defensive(state.problem)
    taken = registry.variants("good")
    mine = session_proposals.add("good", "mine", made, state, taken=taken)
    assert mine.variant == "mine"
    # A name is given once, so that results of one are never shown for another.
    second = session_proposals.add("good", "mine", made, other, taken=taken)
    assert second.variant == "mine-2"
    assert list(state.options("variant")) == ["defensive", "mine"]
    assert list(other.options("variant")) == ["defensive", "mine-2"]
    state.set(variant="mine")
    sent = pickle.dumps(Request("summary", state.settings))
    session_proposals.forget(state)
    assert list(state.options("variant")) == ["defensive"]
    assert list(other.options("variant")) == ["defensive", "mine-2"]
    # What belongs to a page that is no more is nobody else's.
    del other
    gc.collect()
    assert registry.variants("good") == ("defensive",)
    third = session_proposals.add("good", "mine", made, state, taken=taken)
    assert third.variant == "mine-3"
    # A worker reads the files that the environment names when it is first asked.
    for known in (registry.OWN, registry._READ, registry._LISTED):
        known.clear()
    registry._read_all.cache_clear()
    found = pickle.loads(sent).part(0)[1]
    assert {row.name for row in found.rows} >= {"amci", "snis-q2"}


def test_a_problem_without_y_and_theta_has_a_page(fresh, tmp_path, in_a_loop):
    parts = {"prior": "[Normal(0.0, 1.0)] * 2", "likelihood": None, "theta": None}
    served(tmp_path, "neither", f="x1 * x2 + 0.3", **parts)

    def body(turned):
        explorer = turned.explorer
        state = explorer.state
        # A map that was drawn for another problem has nothing to show.
        assert explorer.tabs.card.name == "map"
        turned.does = True
        turned.choose("neither")
        assert state.settings.pair == (None, None)
        page(explorer, turned.document)
        found = explorer.summary.shown.value.rows[0]
        assert abs(found.value - 0.3) < 5 * found.standard_error
        assert "fewer than two coordinates" in explorer.tabs.panel[0].object

    in_a_loop(body, {"problem": "tail-1d", "runs": "4", "draws": "64", "card": "map"})


def test_a_server_does_not_start_with_a_file_that_cannot_be_loaded(fresh, tmp_path, capsys):
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    for text, said in ((str(broken), "line 1"), ("nowhere.py", "no such file"), ("x", "got")):
        assert serve.main(["--port", "5996", "--problem", text]) == 1
        assert said in capsys.readouterr().err.splitlines()[-1]


def test_each_coordinate_of_a_model_is_moved_over_its_own_range(fresh, tmp_path):
    normal, count = "Normal(x[..., 0], 1e6)", "Poisson(2e3 * x[..., 1])"
    state = served(
        tmp_path,
        "mixed",
        prior="[Normal(0.0, 1e6), Gamma(2.0, 1e3)]",
        likelihood=f"lambda x: [{normal}, {count}, Normal(x[..., 1], 1e-3)]",
        f="x1 > theta1",
        theta="Normal(0.0, 1e6)",
    )
    assert (state.across, state.upwards) == ("y[0]", "theta")
    large, count, small, theta, _ = CaseControls(state).panel.select(Slider)
    assert [each.label for each in (large, count, small)] == ["y₁", "y₂", "y₃"]
    assert (count.start, count.step) == (0.0, 1.0)
    assert 4e6 < large.end < 5e6
    assert large.step == 1.0
    assert 0.003 < small.end < 0.02
    # At least a hundred steps.
    assert small.end - small.start > 100 * small.step
    before = state.y
    small.value = 0.00125
    assert state.y == (*before[:2], 0.00125)
    count.value = 3.0
    assert state.y == (before[0], 3.0, 0.00125)
    with pytest.raises(ValueError, match="expected whole numbers"):
        state.move(y=[before[0], 3.7, 0.00125])
    # What a link says is taken to the nearest count, and told.
    assert state.read({"y": "0,3.7,0.00125"})["y"] == "expected whole numbers, got '0,3.7,0.00125'"
    assert state.y == (0.0, 4.0, 0.00125)
    # Coordinates of unlike ranges cannot be moved as one
    assert list(state.options("across")) == ["y[0]", "y[1]", "y[2]", "theta"]
    assert theta.end > 2e6

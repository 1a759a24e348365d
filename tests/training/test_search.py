"""Many trainings at once: the same weights wherever they are made, the best first."""

import functools
import importlib
import json

import filelock
import pytest

import amci_core.training.search
from amci_core.files import StoredFileError, read_tensors
from amci_core.tasks import Where
from amci_core.training.grid import read_grid
from amci_core.training.search import search

GRID = """
[base]
problem = "tail-1d"
minutes = 0.002

[grid]
seed = [0, 1]
"terms.q1_plus.learning_rate" = [0.003, 0.01]
"""


@pytest.fixture
def grid(tmp_path):
    def written(text=GRID):
        path = tmp_path / "grid.toml"
        path.write_text(text)
        return path

    return written


@pytest.fixture
def quick_cards(monkeypatch):
    """Cards from few cases and runs."""
    session = importlib.import_module("amci_core.training.train")
    few = functools.partial(session.evaluate, pairs=2, runs=2)
    monkeypatch.setattr(session, "evaluate", few)


def test_all_combinations_are_tried(grid):
    found = read_grid(grid())
    rates = [of["terms.q1_plus.learning_rate"] for of in found]
    assert [(of["seed"], rate) for of, rate in zip(found, rates, strict=True)] == [
        (0, 0.003), (0, 0.01), (1, 0.003), (1, 0.01),
    ]  # fmt: skip
    assert all(of["problem"] == "tail-1d" and of["variant"] == "spline" for of in found)


@pytest.mark.slow
def test_processes_train_the_same_weights_and_what_is_there_is_kept(grid, tmp_path):
    wanted = read_grid(grid())[:2]
    here = search(wanted, tmp_path / "here")
    told = []
    there = search(
        wanted, tmp_path / "there", where=Where(workers=2), progress=lambda *a: told.append(a)
    )
    assert told == [(0, 2), (1, 2), (2, 2)]
    for tried in here:
        for name in ("q1_plus", "q2"):
            one, other = (
                read_tensors(tmp_path / place / tried.folder / f"{name}.safetensors")
                for place in ("here", "there")
            )
            assert all(one[key].equal(other[key]) for key in one)
    assert [tried.folder for tried in here] == [tried.folder for tried in there]
    assert here[0].remse <= here[1].remse
    listed = json.loads((tmp_path / "here" / "search.json").read_text())
    assert [entry["folder"] for entry in listed] == [tried.folder for tried in here]
    card = json.loads((tmp_path / "here" / here[0].folder / "config.json").read_text())
    rate = here[0].settings["terms.q1_plus.learning_rate"]
    assert card["recipe"]["q1_plus"]["learning_rate"] == rate
    told.clear()
    assert search(wanted, tmp_path / "here", progress=lambda *a: told.append(a)) == here
    assert told == [(2, 2)]


def test_a_training_that_fails_is_named_and_the_others_go_on(
    grid, tmp_path, monkeypatch, quick_cards
):
    right = amci_core.training.search.train

    def wrong(problem, *, seed, **settings):
        if seed == 1:
            raise ArithmeticError("nothing was learnt")
        return right(problem, seed=seed, **settings)

    monkeypatch.setattr(amci_core.training.search, "train", wrong)
    text = GRID.replace("[0.003, 0.01]", "[0.01]")
    found = search(read_grid(grid(text)), tmp_path / "out")
    assert [tried.failure for tried in found] == [None, "ArithmeticError: nothing was learnt"]
    assert found[1].settings["seed"] == 1


def test_what_another_recipe_trained_is_refused_and_kept(grid, tmp_path, quick_cards):
    wanted = read_grid(grid())[:1]
    (tried,) = search(wanted, tmp_path / "out")
    path = tmp_path / "out" / tried.folder / "recipe.json"
    content = json.loads(path.read_text())
    # As it would be if the package's recipe had changed since.
    content["terms"]["q1_plus"]["settings"]["cases"] += 1
    path.write_text(json.dumps(content))
    weights = tmp_path / "out" / tried.folder / "q1_plus.safetensors"
    before = weights.read_bytes()
    with pytest.raises(ValueError, match=rf"^out: .*{tried.folder} was trained by another recipe"):
        search(wanted, tmp_path / "out")
    assert weights.read_bytes() == before


def test_two_searches_into_one_folder_are_refused(grid, tmp_path):
    with (
        filelock.FileLock(tmp_path / ".search.lock"),
        pytest.raises(ValueError, match=r"^out: another search is writing"),
    ):
        search(read_grid(grid())[:1], tmp_path)


def test_a_damaged_record_is_named(grid, tmp_path, quick_cards):
    wanted = read_grid(grid())[:1]
    (tried,) = search(wanted, tmp_path)
    (tmp_path / tried.folder / "tried.json").write_text("{}")
    with pytest.raises(StoredFileError, match=f"{tried.folder}: not as a search left it"):
        search(wanted, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[grid]", "[gird]", r"expected \[base\] and \[grid\], got gird"),
        ("seed = [0, 1]", "sed = [0, 1]", "expected problem, variant, .*got 'sed'"),
        ('"tail-1d"', '"tail-9d"', "as the problem, got 'tail-9d'"),
        ("[0, 1]", "[0, 0]", "expected different trainings, got tail-1d-spline-0-.* twice"),
        ("0.002", "-1", "^minutes: expected a number above 0"),
        (
            'learning_rate" = [0.003, 0.01]',
            'arguments.bins" = [-3, 8]',
            "^bins: expected a whole number from 1",
        ),
        ("q1_plus.learning_rate", "q9.learning_rate", "is no place in the recipe"),
        ("[0.003, 0.01]", '["fast"]', "grid: .*learning_rate"),
        ("seed = [0, 1]", f"seed = {list(range(600))}", "at most 1,000 combinations, got 1,200"),
    ],
)
def test_a_wrong_grid_is_named(old, new, said, grid):
    with pytest.raises(ValueError, match=said):
        read_grid(grid(GRID.replace(old, new)))


def test_a_file_that_is_no_toml_is_named(grid):
    with pytest.raises(StoredFileError, match="not valid TOML"):
        read_grid(grid("[base"))

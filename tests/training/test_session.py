"""A whole training: what it writes, that it can be broken off, and that it repeats itself."""

import dataclasses
import json

import pytest
import torch
from hidden import hidden

from amci_core import load_proposals
from amci_core.files import read_tensors
from amci_core.training import TrainingDiverged, parse_budget, recipe, recipes, session, train
from amci_core.training import fit as fit_module
from amci_core.training.held_out import HeldOut, Quality


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The shipped recipes with fewer steps, smaller sets and an evaluation of a few cases."""
    slow = {
        variant: dataclasses.replace(
            chosen,
            terms={
                name: dataclasses.replace(
                    term,
                    steps_per_minute=60,
                    settings={
                        k: min(v, 40) if isinstance(v, int) else v
                        for k, v in term.settings.items()
                    },
                )
                for name, term in chosen.terms.items()
            },
        )
        for variant, chosen in recipes._RECIPES["tail-1d"].items()
    }
    monkeypatch.setattr(recipes, "_RECIPES", {"tail-1d": slow})
    full = session.evaluate
    monkeypatch.setattr(
        session,
        "evaluate",
        lambda *a, **k: full(*a, **{**k, "pairs": 3, "runs": 3, "budgets": [4]}),
    )


def test_training_for_a_problem_that_does_not_know_its_truth_ends_without_evaluation(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(session, "problem_named", hidden)
    folder = train("tail-1d", minutes=0.05, out=tmp_path / "out")
    assert not (folder / "evaluation.json").exists()
    assert not (folder / session.CHECKPOINT).exists()
    assert load_proposals("tail-1d", folder=folder).card["evaluation"] is None


def weights(folder):
    names = ("q1_plus", "q2")
    return {name: read_tensors(folder / f"{name}.safetensors") for name in names}


def same(first, second):
    return all(
        torch.equal(first[name][key], second[name][key]) for name in first for key in first[name]
    )


@pytest.mark.parametrize("variant", ["spline", "paper"])
def test_training_writes_proposals_that_load_with_log_film_and_evaluation(tmp_path, variant):
    reports = []
    folder = train(
        "tail-1d", variant=variant, minutes=0.5, out=tmp_path / "out", on_progress=reports.append
    )
    proposals = load_proposals("tail-1d", folder=folder)
    assert proposals.present == (0, 2)
    config = json.loads((folder / "config.json").read_text())
    assert config["complete"]
    assert [term["settings"].get("source") for term in config["recipe"].values()] == [
        "importance" if variant == "paper" else None
    ] * 2
    assert config["steps"] == {
        name: recipe("tail-1d", variant).steps(name, 0.5) for name in ("q1_plus", "q2")
    }
    assert [frame["step"] for frame in config["snapshots"]][-1] == config["steps"]["q1_plus"]
    log = json.loads((folder / "training.json").read_text())
    assert len(log) == len(reports)
    assert "amci" in json.loads((folder / "evaluation.json").read_text())["estimators"]
    assert not (folder / "checkpoint").exists()


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path):
    folders = [
        train("tail-1d", minutes=0.3, seed=seed, out=tmp_path / str(i))
        for i, seed in enumerate((5, 5, 6))
    ]
    first, again, other = map(weights, folders)
    assert same(first, again)
    assert not same(first, other)


@pytest.mark.parametrize("variant", ["spline", "paper"])
def test_the_weights_kept_are_those_that_the_objective_selects_by(tmp_path, monkeypatch, variant):
    # The divergence falls while the relative variance rises, as with a light tail far out.
    qualities = (Quality(1 / i, float(i), float(i), float(i)) for i in range(1, 1000))
    seen = []

    def scripted(self, proposal):
        seen.append(next(qualities))
        return seen[-1]

    monkeypatch.setattr(HeldOut, "quality", scripted)
    folder = train("tail-1d", variant=variant, minutes=0.1, out=tmp_path / "out")
    kept = json.loads((folder / "config.json").read_text())["quality"]["q2"]
    # The first two qualities are those of q1_plus and q2 before training.
    assert kept == (seen[-1] if variant == "paper" else seen[1]).as_json()


def test_a_markov_chain_gives_other_draws_and_is_recorded(tmp_path):
    folders = [
        train("tail-1d", variant="paper", source=source, minutes=0.3, out=tmp_path / source)
        for source in ("importance", "mcmc")
    ]
    importance, mcmc = map(weights, folders)
    assert not same({"q1_plus": importance["q1_plus"]}, mcmc)
    assert same({"q2": importance["q2"]}, mcmc)  # p(x, y) is drawn from directly
    config = json.loads((folders[1] / "config.json").read_text())
    assert config["recipe"]["q1_plus"]["settings"]["source"] == "mcmc"


@pytest.mark.parametrize(
    ("variant", "source"), [("spline", None), ("paper", "importance"), ("paper", "mcmc")]
)
@pytest.mark.parametrize("stopped", [("q1_plus", 7), ("q2", 2)])
def test_an_interrupted_training_keeps_the_best_and_resumes_to_the_same_weights(
    tmp_path, variant, source, stopped
):
    arguments = {"variant": variant, "source": source, "minutes": 0.5}
    whole = train("tail-1d", **arguments, out=tmp_path / "whole")

    def interrupt(progress):
        if (progress.proposal, progress.step) == stopped:
            raise KeyboardInterrupt

    arguments["out"] = tmp_path / "broken"
    with pytest.raises(KeyboardInterrupt):
        train("tail-1d", **arguments, on_progress=interrupt)
    config = json.loads((tmp_path / "broken" / "config.json").read_text())
    assert not config["complete"]
    assert load_proposals("tail-1d", folder=tmp_path / "broken").variant == variant

    resumed = train("tail-1d", **arguments, resume=True)
    assert same(weights(whole), weights(resumed))
    assert json.loads((resumed / "config.json").read_text())["complete"]
    films = [
        [(frame["step"], frame["sha256"]) for frame in json.loads(text)["snapshots"]]
        for text in ((f / "config.json").read_text() for f in (whole, resumed))
    ]
    assert films[0] == films[1]


@pytest.mark.parametrize("where", ["loss", "optimizer"])
def test_an_error_within_a_step_leaves_the_last_checkpoint_to_resume_from(
    tmp_path, monkeypatch, where
):
    whole = train("tail-1d", minutes=0.5, out=tmp_path / "whole")
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    owner, name = {
        "loss": (fit_module.RefineObjective, "loss"),
        "optimizer": (torch.optim.Adam, "step"),
    }[where]
    healthy, calls = getattr(owner, name), []

    def failing(*arguments, **options):
        result = healthy(*arguments, **options)  # generator or weights have moved on
        calls.append(1)
        if len(calls) == 9:
            raise OSError("the power is gone")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing)
        with pytest.raises(OSError, match="power"):
            train("tail-1d", minutes=0.5, out=tmp_path / "broken")
    resumed = train("tail-1d", minutes=0.5, out=tmp_path / "broken", resume=True)
    assert same(weights(whole), weights(resumed))


def test_a_loss_that_is_not_finite_is_reported_with_its_step_and_keeps_the_best(
    tmp_path, monkeypatch
):
    healthy = fit_module.RefineObjective.loss
    calls = []

    def poisoned(self, q):
        calls.append(1)
        return healthy(self, q) * (float("nan") if len(calls) == 6 else 1.0)

    monkeypatch.setattr(fit_module.RefineObjective, "loss", poisoned)
    with pytest.raises(TrainingDiverged, match=r"q1_plus: the loss was nan .* at step 6 of"):
        train("tail-1d", minutes=0.5, out=tmp_path / "out")
    q1 = load_proposals("tail-1d", folder=tmp_path / "out").q1_plus
    assert all(torch.isfinite(p).all() for p in q1.parameters())


def test_a_folder_with_a_training_is_not_written_over(tmp_path):
    folder = train("tail-1d", minutes=0.1, out=tmp_path / "out")
    before = weights(folder)
    with pytest.raises(ValueError, match="already holds a training"):
        train("tail-1d", minutes=0.1, seed=1, out=folder)
    with pytest.raises(ValueError, match="no checkpoint"):
        train("tail-1d", minutes=0.1, out=folder, resume=True)
    assert same(before, weights(folder))


def test_resuming_with_another_plan_is_refused(tmp_path):
    def interrupt(progress):
        if progress.step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("tail-1d", minutes=0.3, out=tmp_path / "out", on_progress=interrupt)
    with pytest.raises(ValueError, match="resume: the training in"):
        train("tail-1d", minutes=0.3, seed=1, out=tmp_path / "out", resume=True)


def test_resuming_with_another_source_is_refused(tmp_path):
    def interrupt(progress):
        if progress.step:
            raise KeyboardInterrupt

    arguments = {"variant": "paper", "minutes": 0.3, "out": tmp_path / "out"}
    with pytest.raises(KeyboardInterrupt):
        train("tail-1d", **arguments, on_progress=interrupt)
    with pytest.raises(ValueError, match="resume: the training in"):
        train("tail-1d", **arguments, source="mcmc", resume=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"variant": "maf"}, "variant: expected one of spline, paper, got 'maf'"),
        ({"seed": -1}, "seed: expected"),
        ({"device": "abacus"}, "device: expected auto, cpu"),
        ({"problem": "tail-9d"}, "problem: expected one of tail-1d"),
        ({"source": "importance"}, "source: only variants on the paper's objective"),
        (
            {"variant": "paper", "source": "gibbs"},
            "source: expected one of importance, mcmc, got 'gibbs'",
        ),
    ],
)
def test_bad_arguments_are_named(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        train(**{"problem": "tail-1d", "out": tmp_path / "out", **arguments})
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("keep me")
    with pytest.raises(ValueError, match="out: expected a folder"):
        train("tail-1d", out=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "keep me"


@pytest.mark.parametrize(("text", "minutes"), [("90s", 1.5), ("10m", 10), ("1.5h", 90)])
def test_budgets_are_read(text, minutes):
    assert parse_budget(text) == minutes


@pytest.mark.parametrize("text", ["", "10", "-5m", "0s", "ten minutes", "1e9m", "30h"])
def test_bad_budgets_are_refused(text):
    with pytest.raises(ValueError, match="budget: expected 1s to 24h"):
        parse_budget(text)


def test_a_short_training_of_the_real_recipe_learns_the_tail(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(session, "_evaluate", lambda *a, **k: None)
    folder = train("tail-1d", minutes=0.05, out=tmp_path / "out")
    quality = json.loads((folder / "config.json").read_text())["quality"]
    # An untrained spline has a relative variance of 1.9; Theorem 1's limit is 0.
    assert quality["q1_plus"]["relative_variance"] < 0.02

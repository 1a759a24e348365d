"""A whole training: what it writes, that it can be broken off, and that it repeats itself."""

import copy
import functools
import json
import pickle
import shutil

import pytest
import torch
from hidden import hidden
from pytorch_optimizer import SOAP

from amci_core import __version__, load_proposals, problem, proposals
from amci_core.cli import main
from amci_core.io import StoredFileError, pretrained_root, read_json, read_tensors
from amci_core.proposals import available_variants
from amci_core.training import TrainingDiverged, quality, recipe, recipes, train, trainer
from amci_core.training.quality import HeldOut, Quality
from amci_core.training.trainer import Trainer


@pytest.fixture(autouse=True, scope="module")
def quick(tmp_path_factory):
    """The shipped recipes with fewer steps, smaller sets and few cases to judge weights by."""
    root = tmp_path_factory.mktemp("pretrained")
    for file in (recipes.pretrained_root() / "tail-1d").glob("*/recipe.json"):
        content = json.loads(file.read_text())
        for term in content["terms"].values():
            term["steps_per_minute"] = 60
            term["settings"] = {key: min(value, 40) for key, value in term["settings"].items()}
        write_recipe(root / "tail-1d" / file.parent.name, content)
    full = recipes.evaluate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipes, "pretrained_root", lambda: root)
        patch.setattr("amci_core.training.targets.BURN_IN", 5)
        patch.setattr(recipes, "STEPS_OF_REPORT", 1)
        for option, number in (("cases", 16), ("draws", 32)):
            patch.setitem(HeldOut.__init__.__kwdefaults__, option, number)
        patch.setattr(
            recipes,
            "evaluate",
            lambda *a, **k: full(*a, **{**k, "cases": 3, "runs": 3, "draws": [4]}),
        )
        yield root


@pytest.fixture(scope="module")
def whole(tmp_path_factory, quick):
    """Makes trainings of half a minute's budget, each once: the folder and what was reported."""

    @functools.cache
    def made(variant="spline", source=None, seed=0):
        reports = []
        arguments = {"variant": variant, "source": source, "seed": seed, "minutes": 0.5}
        out = tmp_path_factory.mktemp("whole") / "out"
        return train("tail-1d", **arguments, out=out, on_progress=reports.append), reports

    return made


@pytest.fixture(scope="module")
def broken(tmp_path_factory, quick):
    """Makes trainings of half a minute's budget that were interrupted, each time a fresh copy."""

    @functools.cache
    def made(variant, source, stopped):
        def interrupt(progress):
            if (progress.proposal, progress.step) == stopped:
                raise KeyboardInterrupt

        out = tmp_path_factory.mktemp("broken") / "out"
        arguments = {"variant": variant, "source": source, "minutes": 0.5}
        with pytest.raises(KeyboardInterrupt):
            train("tail-1d", **arguments, out=out, on_progress=interrupt)
        return out

    def copied(variant="spline", source=None, stopped=("q1_plus", 7)):
        out = tmp_path_factory.mktemp("copy") / "out"
        return shutil.copytree(made(variant, source, stopped), out)

    return copied


def write_recipe(folder, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.json").write_text(json.dumps(content))


def test_training_for_a_problem_that_does_not_know_its_truth_ends_without_evaluation(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(recipes, "problem_named", hidden)
    folder = train("tail-1d", minutes=0.05, out=tmp_path / "out")
    assert not (folder / "evaluation.json").exists()
    assert not (folder / "checkpoint.pt").exists()
    assert load_proposals("tail-1d", folder=folder).card["evaluation"] is None


def weights(folder):
    entries = read_json(folder / "config.json")["proposals"]
    return {name: read_tensors(folder / entries[name]["file"]) for name in ("q1_plus", "q2")}


def same(first, second):
    return all(
        torch.equal(first[name][key], second[name][key]) for name in first for key in first[name]
    )


@pytest.mark.parametrize(("variant", "source"), [("spline", None), ("paper", "importance")])
def test_training_writes_proposals_that_load_with_log_film_and_evaluation(whole, variant, source):
    folder, reports = whole(variant, source)
    proposals = load_proposals("tail-1d", folder=folder)
    assert proposals.present == (0, 2)
    config = json.loads((folder / "config.json").read_text())
    assert config["complete"]
    settings = [term["settings"] for term in config["recipe"].values()]
    assert {each.get("source") for each in settings} == {source}
    assert config["steps"] == {
        name: recipe("tail-1d", variant).steps(name, 0.5) for name in proposals.by_name
    }
    assert [frame["step"] for frame in config["snapshots"]][-1] == config["steps"]["q1_plus"]
    log = json.loads((folder / "training.json").read_text())
    assert len(log) == len(reports)
    evaluation = json.loads((folder / "evaluation.json").read_text())
    assert "amci" in evaluation["estimators"]
    assert evaluation["versions"]["amci-explorer"] == __version__


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(whole, tmp_path):
    again = weights(train("tail-1d", minutes=0.5, out=tmp_path / "again"))
    assert same(weights(whole()[0]), again)
    assert not same(weights(whole(seed=6)[0]), again)


@pytest.mark.parametrize("variant", ["spline", "paper"])
def test_the_weights_kept_are_those_that_the_objective_selects_by(monkeypatch, variant):
    # The divergence falls while the relative variance rises, as with a light tail far out.
    qualities = (Quality(1 / i, float(i), float(i), float(i)) for i in range(1, 1000))
    monkeypatch.setattr(HeldOut, "quality", lambda self, proposal: next(qualities))
    term = recipe("tail-1d", variant).terms["q2"]
    made = Trainer(problem("tail-1d"), "q2", term, steps=6, seed=0)
    untrained = copy.deepcopy(made.proposal.state_dict())
    *_, last = made.run()
    assert last.step == 6
    kept = made.best_proposal().state_dict()
    expected = made.proposal.state_dict() if variant == "paper" else untrained
    assert all(torch.equal(kept[key], expected[key]) for key in kept)


def test_a_markov_chain_gives_other_draws_and_is_recorded(whole):
    folders = [whole("paper", source)[0] for source in ("importance", "mcmc")]
    importance, mcmc = map(weights, folders)
    assert not same({"q1_plus": importance["q1_plus"]}, mcmc)
    assert same({"q2": importance["q2"]}, mcmc)  # p(x, y) is drawn from directly
    config = json.loads((folders[1] / "config.json").read_text())
    assert config["recipe"]["q1_plus"]["settings"]["source"] == "mcmc"


@pytest.mark.parametrize(
    ("variant", "source", "stopped"),
    [
        ("spline", None, ("q1_plus", 7)),
        pytest.param("paper", "mcmc", ("q2", 2), marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_training_keeps_the_best_and_resumes_to_the_same_weights(
    whole, broken, variant, source, stopped
):
    out = broken(variant, source, stopped)
    config = json.loads((out / "config.json").read_text())
    assert not config["complete"]
    assert load_proposals("tail-1d", folder=out).variant == variant

    arguments = {"variant": variant, "source": source, "minutes": 0.5}
    resumed = train("tail-1d", **arguments, out=out, resume=True)
    unbroken, _ = whole(variant, source)
    assert same(weights(unbroken), weights(resumed))
    assert json.loads((resumed / "config.json").read_text())["complete"]
    films = [
        [(frame["step"], frame["sha256"]) for frame in json.loads(text)["snapshots"]]
        for text in ((f / "config.json").read_text() for f in (unbroken, resumed))
    ]
    assert films[0] == films[1]


def test_an_error_within_a_step_leaves_the_last_checkpoint_to_resume_from(
    whole, tmp_path, monkeypatch
):
    monkeypatch.setattr(trainer, "CHECKPOINT_SECONDS", 0.0)
    healthy, calls = SOAP.step, []

    def failing(*arguments, **options):
        result = healthy(*arguments, **options)  # weights have moved on
        calls.append(1)
        if len(calls) == 9:
            raise OSError("the power is gone")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(SOAP, "step", failing)
        with pytest.raises(OSError, match="power"):
            train("tail-1d", minutes=0.5, out=tmp_path / "broken")
    resumed = train("tail-1d", minutes=0.5, out=tmp_path / "broken", resume=True)
    assert same(weights(whole()[0]), weights(resumed))


@pytest.mark.parametrize("content", [b"junk", pickle.dumps(print), {"log": []}, [1]])
def test_a_file_that_is_no_checkpoint_is_named(tmp_path, content):
    file = tmp_path / "checkpoint.pt"
    file.write_bytes(content) if isinstance(content, bytes) else torch.save(content, file)
    with pytest.raises(StoredFileError, match=r"checkpoint\.pt: not a checkpoint of a training"):
        train("tail-1d", minutes=0.5, out=tmp_path, resume=True)


def test_a_folder_with_a_training_is_not_written_over(whole):
    folder, _ = whole()
    before = weights(folder)
    with pytest.raises(ValueError, match=r"holds files, such as config\.json\. Choose a new"):
        train("tail-1d", minutes=0.5, seed=1, out=folder)
    with pytest.raises(ValueError, match="no checkpoint"):
        train("tail-1d", minutes=0.5, out=folder, resume=True)
    assert same(before, weights(folder))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"variant": "maf"}, "variant: expected one of spline, paper, got 'maf'"),
        ({"seed": -1}, "seed: expected"),
        ({"device": "abacus"}, "device: expected auto, cpu"),
        ({"source": "importance"}, "source: applies to variants with the paper's objective"),
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


def test_a_short_training_of_the_real_recipe_learns_the_tail(tmp_path, monkeypatch):
    monkeypatch.setattr(recipes, "problem_named", hidden)  # without truth no evaluation
    real = pretrained_root() / "tail-1d" / "spline"
    folder = train("tail-1d", recipe_file=real, minutes=0.06, out=tmp_path / "out")
    quality = json.loads((folder / "config.json").read_text())["quality"]
    # An untrained spline has a relative variance of 1.9; Theorem 1's limit is 0. The complement's
    # proposal takes half of the time.
    assert quality["q1_plus"]["relative_variance"] < 0.02


def test_a_variant_is_a_folder_with_a_recipe(tmp_path, quick, monkeypatch):
    root = shutil.copytree(quick, tmp_path / "pretrained")  # the other tests' has no such variant
    for module in (proposals, recipes):
        monkeypatch.setattr(module, "pretrained_root", lambda: root)
    folder = root / "tail-1d" / "tiny"
    content = read_json(root / "tail-1d" / "spline" / "recipe.json")
    content["terms"]["q1_plus"]["arguments"]["bins"] = 4
    write_recipe(folder, content)
    assert recipes.variants("tail-1d") == ("spline", "paper", "tiny")
    assert available_variants("tail-1d") == ("oracle",)  # none of the recipes is trained yet
    made = tmp_path / "made"
    with pytest.raises(SystemExit) as ended:
        main(["train", "tail-1d", "--variant", "tiny", "--minutes", "0.05", "--out", str(made)])
    assert ended.value.code == 0
    shutil.copytree(made, folder, dirs_exist_ok=True)
    assert available_variants("tail-1d") == ("tiny", "oracle")
    tiny = load_proposals("tail-1d", variant="tiny")
    assert tiny.card["configuration"]["proposals"]["q1_plus"]["arguments"]["bins"] == 4
    assert tiny.card["evaluation"]["variant"] == "tiny"


def test_a_recipe_can_lie_anywhere(tmp_path, quick):
    own = tmp_path / "mine"
    write_recipe(own, read_json(quick / "tail-1d" / "spline" / "recipe.json"))
    arguments = ["--recipe", str(own / "recipe.json"), "--minutes", "0.0333"]
    with pytest.raises(SystemExit) as ended:
        main(["train", "tail-1d", *arguments, "--out", str(tmp_path / "out")])
    assert ended.value.code == 0
    assert load_proposals("tail-1d", folder=tmp_path / "out").variant == "mine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("note"), "missing .* 'note'"),
        (lambda c: c["terms"]["q2"].update(colour="red"), "unexpected .* 'colour'"),
        (lambda c: c["terms"].pop("q1_plus"), "expected terms for q1_plus"),
        (lambda c: c["terms"].update(q3=c["terms"]["q2"]), "expected terms .* got .*q3"),
    ],
)
def test_a_recipe_that_is_wrong_is_refused_with_file_and_key(tmp_path, quick, change, message):
    content = read_json(quick / "tail-1d" / "spline" / "recipe.json")
    change(content)
    write_recipe(tmp_path / "mine", content)
    with pytest.raises(StoredFileError, match=rf"mine/recipe\.json: .*{message}"):
        train("tail-1d", recipe_file=tmp_path / "mine", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("arguments", "family: gaussian does not accept"),
        ("settings", "objective: refine does not"),
    ],
)
def test_an_argument_that_a_family_or_objective_does_not_take_is_named(
    tmp_path, quick, part, message
):
    content = read_json(quick / "tail-1d" / "spline" / "recipe.json")
    content["terms"]["q2"][part]["colour"] = 1
    write_recipe(tmp_path / "mine", content)
    with pytest.raises(ValueError, match=f"{message}.*colour"):
        train("tail-1d", recipe_file=tmp_path / "mine", out=tmp_path / "out")


def test_a_parameter_that_is_not_finite_is_reported_though_every_loss_was(tmp_path, monkeypatch):
    healthy, calls = SOAP.step, []
    steps = recipe("tail-1d", "spline").steps("q1_plus", 0.5)

    def poisoned(self, *arguments, **options):
        result = healthy(self, *arguments, **options)
        calls.append(1)
        if len(calls) == steps:  # the last step: no loss sees it
            with torch.no_grad():
                self.param_groups[0]["params"][0].view(-1)[0] = float("nan")
        return result

    monkeypatch.setattr(SOAP, "step", poisoned)
    with pytest.raises(TrainingDiverged, match=rf"q1_plus: a parameter .* at step {steps}\."):
        train("tail-1d", minutes=0.5, out=tmp_path / "out")
    q1 = load_proposals("tail-1d", folder=tmp_path / "out").q1_plus
    assert all(torch.isfinite(p).all() for p in q1.parameters())


def test_the_quality_in_the_card_is_measured_on_other_cases_than_the_selection(whole):
    folder, _ = whole()
    reported = read_json(folder / "config.json")["quality"]["q1_plus"]
    log = [
        entry for entry in read_json(folder / "training.json") if entry["proposal"] == "q1_plus"
    ]
    selected = min(log, key=lambda entry: entry["relative_variance"])
    assert reported["relative_variance"] not in [entry["relative_variance"] for entry in log]
    assert reported["relative_variance"] == pytest.approx(selected["relative_variance"], rel=1)


def test_a_card_is_renewed_without_training(whole, tmp_path, capsys, monkeypatch):
    folder = shutil.copytree(whole()[0], tmp_path / "out")
    before = weights(folder)
    (folder / "evaluation.json").unlink()
    config = read_json(folder / "config.json")
    del config["verdict"]
    (folder / "config.json").write_text(json.dumps(config | {"quality": {}}))
    few = functools.partial(quality.long_check, cases=2, draws=200)
    monkeypatch.setattr(quality, "long_check", few)
    options = "--cases 2 --runs 4 --draws 4,8 --write --folder"
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "tail-1d", *options.split(), str(folder)])
    assert ended.value.code == 0
    assert same(before, weights(folder))
    renewed = read_json(folder / "config.json")
    assert renewed.pop("verdict")["draws"] == 200
    assert renewed == config
    evaluation = load_proposals("tail-1d", folder=folder).card["evaluation"]
    assert evaluation["draws"] == [4, 8]
    assert "snis-qm-stratified" in evaluation["estimators"]
    cases = (folder / "cases.parquet").read_bytes()
    assert not (folder / "cases.new.parquet").exists()
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "tail-1d", *options.split(), str(folder), "--runs", "0"])
    assert ended.value.code == 2
    assert (folder / "cases.parquet").read_bytes() == cases
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "tail-1d", "--write"])
    assert ended.value.code == 2
    assert "--write: needs --folder DIR" in capsys.readouterr().err

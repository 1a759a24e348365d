"""What comes with the package loads, is what its card says, and refuses to be anything else."""

import contextlib
import hashlib
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.distributions import Normal, Uniform

from amci_core import estimate, load_history, load_proposals, model, problem
from amci_core.flows import Proposals
from amci_core.io import StoredFileError, pretrained_root, read_tensors, write_tensors
from amci_core.training import learn
from amci_core.training.quality import HeldOut
from amci_core.training.targets import TARGETS


@pytest.fixture
def copied(tmp_path):
    """A copy of the default proposals, to damage."""
    return shutil.copytree(pretrained_root() / "tail-1d" / "spline", tmp_path / "spline")


def edit(folder, change, file="config.json"):
    path = folder / file
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tail-1d", "cancer", "gain-loss", "peak"])
def test_the_weights_have_the_quality_that_is_recorded(name):
    proposals = load_proposals(name)
    recorded = proposals.card["configuration"]["quality"]
    present = {t for t in TARGETS if getattr(proposals, t) is not None}
    assert set(recorded) == present
    for term, quality in recorded.items():
        # The same cases and draws; an exact proposal's variance is rounding.
        held_out = HeldOut(TARGETS[term](problem(name)), seed=2_019_06_10)
        fresh = vars(held_out.quality(getattr(proposals, term)))
        assert fresh == pytest.approx(quality, rel=0.02, abs=1e-9), term


def test_the_card_of_every_shipped_variant_is_of_its_weights():
    for card in sorted(pretrained_root().glob("*/*/evaluation.json")):
        weights = json.loads(card.read_text())["weights"]
        # It says nothing of the proposal for the complement: its estimators do not draw from it.
        files = {path.stem: path for path in card.parent.glob("*.safetensors")}
        files.pop("q1_complement", None)
        assert weights == {
            name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()
        }


def test_an_evaluation_of_other_weights_says_nothing_of_these(copied):
    assert load_proposals("tail-1d", folder=copied).card["evaluation"]["cases"] == 100
    edit(copied, lambda card: card["weights"].update(q2="0" * 64), "evaluation.json")
    assert load_proposals("tail-1d", folder=copied).card["evaluation"] is None


def write_q2(folder, tensors):
    digest = write_tensors(folder / "q2.safetensors", tensors)
    edit(folder, lambda c: c["proposals"]["q2"].update(sha256=digest))


def test_weights_that_are_not_finite_are_refused_and_densities_that_overflow_not_trusted(copied):
    tensors = read_tensors(copied / "q2.safetensors")
    write_q2(copied, {name: 1e30 * tensor for name, tensor in tensors.items()})
    damaged = load_proposals("tail-1d", folder=copied)
    assert estimate("tail-1d", damaged, 1.0, 3.0, seed=0).verdict.level == "do not trust"
    write_q2(copied, {name: math.nan * tensor for name, tensor in tensors.items()})
    with pytest.raises(StoredFileError, match=r"q2\.safetensors: holds a number that is not"):
        load_proposals("tail-1d", folder=copied)


@pytest.mark.parametrize("name", ["tail-1d", "tail-5d", "cancer", "gain-loss", "peak"])
def test_what_is_shipped_integrates_to_one_and_stays_inside(name):
    chosen, proposals = problem(name), load_proposals(name)
    n = 1000
    y, theta = chosen.check(*chosen.cases(4, seed=2))
    for term in proposals.card["configuration"]["quality"]:
        target = TARGETS[term](chosen)
        density = getattr(proposals, term)(y, theta)
        own, _ = density.draw(n, torch.Generator().manual_seed(0))
        assert (target.log_density(own, y, theta) > -np.inf).all(), term
        reference = target.reference(y, theta)
        x = torch.cat([own, reference.draw(n, torch.Generator().manual_seed(1))[0]], -2)
        # The mean of q over its mixture with a known density.
        ratio = 2 * torch.sigmoid(density.log_prob(x) - reference.log_prob(x))
        error = torch.sqrt((ratio[:, :n].var(-1) + ratio[:, n:].var(-1)) / (4 * n))
        assert (abs(ratio.mean(-1) - 1) < 4.5 * error + 1e-9).all(), term


def test_the_history_shows_q1_getting_better():
    history = load_history("tail-1d")
    assert 5 <= len(history) <= 8
    steps = [checkpoint.step for checkpoint in history]
    assert steps == sorted(set(steps))
    assert steps[0] == 0
    variances = [checkpoint.relative_variance for checkpoint in history]
    assert variances[-1] == min(variances) < 1e-3 * variances[0]
    y, theta = problem("tail-1d").check(1.0, 3.0)
    x, expected = load_proposals("tail-1d").q1_plus(y, theta).draw(10)
    found = [checkpoint.proposals.q1_plus(y, theta).log_prob(x) for checkpoint in history]
    np.testing.assert_allclose(found[-1], expected, atol=1e-9)
    assert len({float(log_q[0]) for log_q in found}) == len(history)


def changed(term, **entries):
    return lambda config: config["proposals"][term].update(entries)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("fingerprint"), r"config\.json: does not say for which problem"),
        (changed("q2", sha256=None), "not the recorded None"),
        (
            lambda c: c.update(fingerprint={"f": [0.0]}),
            r"made for tail-1d with another f, .*, not for tail-1d",
        ),
        (lambda c: c.update(format=99), r"config\.json: not a configuration of format 1"),
        (lambda c: c["proposals"].pop("q1_plus"), r"config\.json: does not fit .*'q1_plus'"),
        (
            changed("q1_plus", family="maf"),
            r"config\.json: family 'maf' of q1_plus\.safetensors is",
        ),
        (lambda c: c.update(proposals=[c["proposals"]]), r"config\.json: does not fit .*list"),
        (
            lambda c: c["proposals"]["q1_plus"]["arguments"].update(bins=5),
            r"config\.json: does not fit these weights",
        ),
        (changed("q2", file="../elsewhere.safetensors"), "no weights of this folder"),
        (changed("q2", file="q2\0"), "no weights of this folder"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(copied, change, message):
    edit(copied, change)
    with pytest.raises(StoredFileError, match=message):
        load_proposals("tail-1d", folder=copied)


@pytest.mark.parametrize(
    ("name", "variant", "message"),
    [
        ("tail-1d", "maf", r"variant: expected .*spline.*oracle.*, got 'maf'"),
        ("tail-5d", "oracle", "variant: expected one of .*defensive for "),
        ("head-1d", "spline", "problem: expected one of tail-1d"),
    ],
)
def test_unknown_names_are_refused(name, variant, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        load_proposals(name, variant=variant)


def test_a_folder_holds_the_variant_that_is_requested(copied):
    assert load_proposals("tail-1d", variant="spline", folder=copied).variant == "spline"
    with pytest.raises(ValueError, match=r"^variant: .* holds 'spline', got 'paper'"):
        load_proposals("tail-1d", variant="paper", folder=copied)


def model_called(name, bound):
    return model(
        prior=Normal(0.0, 1.0),
        likelihood=lambda x: Normal(x, 1.0),
        f=lambda x, theta: x > theta + bound,
        theta=Uniform(0.0, 5.0),
        name=name,
    )


@pytest.fixture(scope="module")
def learnt():
    return learn(model_called("mine", 0.0), steps=1)


AT = {"y": 1.0, "theta": 2.0, "draws": 16}


def test_learnt_proposals_are_the_same_after_saving_and_loading(learnt, tmp_path):
    own = model_called("mine", 0.0)
    folder = learnt.save(tmp_path / "kept")
    loaded = load_proposals(own, folder=folder)
    assert (loaded.problem, loaded.variant, loaded.present) == ("mine", "learnt", (0, 2))
    assert loaded.card["configuration"]["steps"] == {"q1_plus": 1, "q1_complement": 1, "q2": 1}
    assert estimate(own, learnt, **AT).value == estimate(own, loaded, **AT).value
    with pytest.raises(ValueError, match=r"^folder: .*kept holds proposals already"):
        learnt.save(folder)
    # The same problem under another name has them too, one with another f does not.
    assert load_proposals(model_called("yours", 0.0), folder=folder).problem == "yours"
    with pytest.raises(StoredFileError, match=r"for mine with another f, .*not for mine\. Train"):
        load_proposals(model_called("mine", 1.0), folder=folder)
    with pytest.raises(ValueError, match=r"^proposals: none ship with the package for mine"):
        load_proposals(own)


def test_proposals_of_another_problem_of_the_name_are_refused(learnt):
    one, another = model_called("mine", 0.0), model_called("mine", 1.0)
    normals = {
        "q1_plus": lambda y, theta: Normal(0 * y + 2, 1.0),
        "q2": lambda y, t: Normal(y, 1.0),
    }
    outside = Proposals.from_distributions(one, **normals)
    for proposals in (learnt, outside, load_proposals(one, variant="defensive")):
        assert estimate(model_called("mine", 0.0), proposals, **AT).value > 0
        with pytest.raises(ValueError, match=r"^proposals: .*, got proposals for mine with anoth"):
            estimate(another, proposals, **AT)
    with pytest.raises(ValueError, match=r"^q2: .* got one for cancer with another log_prior"):
        learn(one, steps=1, q2=load_proposals("cancer"))


def test_shipped_weights_are_not_for_another_problem_of_the_name():
    imposter = model_called("tail-1d", 1.0)
    with pytest.raises(ValueError, match=r"^proposals: none ship"):
        load_proposals(imposter)
    with pytest.raises(ValueError, match=r"^proposals: .* got proposals for tail-1d with another"):
        estimate(imposter, load_proposals("tail-1d"), y=1.0, theta=2.0)
    again = type(problem("tail-1d"))(1)
    assert load_proposals(again).variant == "spline"


def test_loaded_proposals_can_be_kept_and_those_without_a_record_cannot(tmp_path):
    shipped = load_proposals("tail-1d")
    copied = load_proposals("tail-1d", folder=shipped.save(str(tmp_path / "copy")))
    assert copied.variant == "spline"
    # Weights are float32 on the disk, as those that are shipped.
    weights = [each.card["configuration"]["proposals"]["q1_plus"] for each in (shipped, copied)]
    assert weights[0]["sha256"] == weights[1]["sha256"]
    assert estimate("tail-1d", copied, **AT).value == estimate("tail-1d", shipped, **AT).value
    with pytest.raises(ValueError, match=r"^proposals: expected trained ones, .* got oracle"):
        load_proposals("tail-1d", variant="oracle").save(tmp_path / "oracle")
    assert not (tmp_path / "oracle").exists()


def test_a_kill_at_any_moment_leaves_the_old_or_the_new(copied, tmp_path, monkeypatch):
    paper = load_proposals("tail-1d", variant="paper")
    (copied / "thesis.tex").write_text("of others")
    seen = []
    for moment in range(100):
        folder, left = shutil.copytree(copied, tmp_path / str(moment)), [moment]

        def dying(act, left=left):
            def step(*arguments, **options):
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
                return act(*arguments, **options)

            return step

        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            for name in ("touch", "write_bytes", "replace", "unlink"):
                patch.setattr(Path, name, dying(getattr(Path, name)))
            paper.save(folder, replace=True)
        loaded = load_proposals("tail-1d", folder=folder)
        seen.append(loaded.variant)
        assert bool(loaded.card["evaluation"]) == (loaded.variant == "spline")
        paper.save(folder, replace=True)
        assert len([*folder.iterdir()]) == 4
        if left[0]:
            break
    assert seen == sorted(seen, reverse=True)
    assert {*seen} == {"spline", "paper"}


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("file", ["thesis.tex", "config.json", "q1_plus.safetensors"])
def test_a_folder_of_others_is_never_filled(tmp_path, file, replace):
    (tmp_path / file).write_text('{"model_type": "llama"}')
    peak = load_proposals("peak")
    with pytest.raises(ValueError, match=rf"^folder: .* holds files, such as {file}\. Choose"):
        peak.save(tmp_path, replace=replace)
    with pytest.raises(ValueError, match=r"^folder: .* holds files"):
        learn("peak", steps=1, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [file]
    assert (tmp_path / file).read_text() == '{"model_type": "llama"}'


@pytest.mark.parametrize(
    "call",
    [
        lambda folder: load_proposals("peak").save(folder),
        lambda folder: load_proposals("peak", folder=folder),
        lambda folder: learn("peak", steps=1, folder=folder),
    ],
)
@pytest.mark.parametrize("odd", ["/dev/null", "/dev/null/within", "a" * 300, 3, "a\0b"])
def test_what_can_be_no_folder_is_named(call, odd):
    with pytest.raises(ValueError, match=r"^folder: "):
        call(odd)

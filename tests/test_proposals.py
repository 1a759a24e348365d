"""What comes with the package loads, is what its card says, and refuses to be anything else."""

import contextlib
import copy
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.distributions import Normal, Uniform

from amci_core import estimate, evaluate, load_history, load_proposals, model, problem, problems
from amci_core.evaluation.sweep import origin
from amci_core.flows import Proposals
from amci_core.io import StoredFileError, pretrained_root, read_tensors, write_tensors
from amci_core.training import learn
from amci_core.training.quality import HeldOut
from amci_core.training.targets import TARGETS

MEGABYTE = 2**20
# Problem, the least ratio of the bound to AMCI's error at 1000 draws, and the least share of cases
# in which AMCI lies below the bound.
FLOORS = [
    ("tail-1d", 1e5, 1.0),
    ("tail-5d", 100, 1.0),
    ("cancer", 100, 0.99),
    ("gain-loss", 1e3, 0.99),
    ("peak", 1e3, 1.0),
]


@pytest.fixture
def copied(tmp_path):
    """A copy of the default proposals, to damage."""
    return shutil.copytree(pretrained_root() / "tail-1d" / "spline", tmp_path / "spline")


def edit(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def test_every_shipped_variant_loads_and_estimates():
    tail = problem("tail-1d")
    for variant in ("spline", "paper", "oracle"):
        proposals = load_proposals("tail-1d", variant=variant)
        assert (proposals.problem, proposals.variant) == ("tail-1d", variant)
        assert proposals.q1_minus is None
        found = estimate(tail, proposals, y=1.0, theta=3.0, draws=4096, seed=1)
        spread = max(float(found.standard_error), 1e-12 * float(found.value))
        assert abs(found.value - tail.truth(1.0, 3.0)) < 4 * spread, variant


@pytest.mark.slow
@pytest.mark.parametrize("name", problems())
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


SHIPPED = [path.parent for path in sorted(pretrained_root().glob("*/*/config.json"))]


@pytest.mark.slow
@pytest.mark.parametrize("folder", SHIPPED, ids=lambda f: f"{f.parent.name}/{f.name}")
def test_the_card_of_every_shipped_variant_judges_its_weights_and_holds_on_other_cases(folder):
    name, variant = folder.parent.name, folder.name
    card = json.loads((folder / "evaluation.json").read_text())
    for proposal, digest in card["weights"].items():
        content = (folder / f"{proposal}.safetensors").read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
    # It says nothing of the proposal for the complement, from which its estimators do not draw.
    judged = [path.stem for path in folder.glob("*.safetensors") if path.stem != "q1_complement"]
    assert card["weights"].keys() == set(judged)
    fresh = evaluate(
        problem(name),
        load_proposals(name, variant=variant),
        cases=12,
        runs=8,
        draws=card["draws"][-1:],
        estimators=["amci"],
        seed=1,
    )
    # Errors of cases differ by orders: medians are compared by their logarithms. The median of n
    # values is known to 0.93 of their interquartile range over the root of n.
    logs, doubts = [], []
    for found, pairs in (
        (fresh.estimators["amci"], 16),
        (card["estimators"]["amci"], card["cases"]),
    ):
        median, low, high = (
            np.log(found[key][-1]) for key in ("remse_median", "remse_q25", "remse_q75")
        )
        logs.append(median)
        doubts.append(0.93 * (high - low) / np.sqrt(pairs))
    # The mean over 8 runs of heavy-tailed errors is mostly below that over 100.
    assert abs(logs[0] - logs[1]) < 4 * np.hypot(*doubts) + 0.4


def test_an_evaluation_of_other_weights_says_nothing_of_these(copied):
    assert load_proposals("tail-1d", folder=copied).card["evaluation"]["cases"] == 100
    path = copied / "evaluation.json"
    evaluation = json.loads(path.read_text())
    evaluation["weights"]["q2"] = "0" * 64
    path.write_text(json.dumps(evaluation))
    assert load_proposals("tail-1d", folder=copied).card["evaluation"] is None


def test_weights_that_are_not_finite_are_refused(copied):
    path = copied / "q2.safetensors"
    tensors = read_tensors(path)
    parameter = next(key for key in tensors if "network" in key)
    tensors[parameter].view(-1)[0] = float("nan")
    digest = write_tensors(path, tensors)
    edit(copied, lambda c: c["proposals"]["q2"].update(sha256=digest))
    with pytest.raises(StoredFileError, match=r"q2\.safetensors: holds a number that is not"):
        load_proposals("tail-1d", folder=copied)


def test_weights_whose_densities_overflow_are_not_trusted(copied):
    path = copied / "q2.safetensors"
    digest = write_tensors(path, {name: 1e30 * t for name, t in read_tensors(path).items()})
    edit(copied, lambda c: c["proposals"]["q2"].update(sha256=digest))
    damaged = load_proposals("tail-1d", folder=copied)
    assert estimate("tail-1d", damaged, 1.0, 3.0, seed=0).verdict.level == "do not trust"


@pytest.mark.parametrize("name", problems())
def test_what_is_shipped_integrates_to_one_and_stays_inside(name):
    chosen, proposals = problem(name), load_proposals(name)
    n = 4000
    y, theta = chosen.check(*chosen.cases(8, seed=2))
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


@pytest.mark.parametrize(("name", "ratio", "share"), FLOORS)
def test_amci_beats_the_bound_as_asked(name, ratio, share):
    evaluation = load_proposals(name).card["evaluation"]
    measure = "mse_median" if name == "gain-loss" else "remse_median"
    found = {k: v[measure][-1] for k, v in evaluation["estimators"].items()}
    assert evaluation["draws"][-1] == 1000
    assert found["bound"] / found["amci"] >= ratio
    assert evaluation["below_bound"]["amci"][-1] >= share


def test_the_history_shows_q1_getting_better():
    film = load_history("tail-1d")
    assert 5 <= len(film) <= 8
    steps = [frame.step for frame in film]
    assert steps == sorted(set(steps))
    assert steps[0] == 0
    variances = [v for v in (frame.relative_variance for frame in film) if v is not None]
    assert len(variances) == len(film)
    assert variances[-1] == min(variances) < 1e-3 * variances[0]
    hashes = {origin(problem("tail-1d"), f.proposals)["weights"]["q1_plus"] for f in film}
    assert len(hashes) == len(film)
    trained = load_proposals("tail-1d")
    at_the_end = film[-1].proposals
    y, theta = problem("tail-1d").check(1.0, 3.0)
    x, expected = trained.q1_plus(y, theta).draw(10)
    np.testing.assert_allclose(at_the_end.q1_plus(y, theta).log_prob(x), expected, atol=1e-9)


def test_files_are_small_and_none_is_a_pickle():
    files = [p for p in pretrained_root().rglob("*") if p.is_file()]
    assert sum(p.stat().st_size for p in files) < 20 * MEGABYTE
    for default in pretrained_root().glob("*/spline"):
        assert sum(p.stat().st_size for p in default.glob("*.safetensors")) < MEGABYTE
    assert {p.suffix for p in files} <= {".safetensors", ".json", ".md", ".parquet"}


def test_weights_outside_of_their_folder_are_refused(copied, tmp_path):
    (copied / "q2.safetensors").rename(tmp_path / "elsewhere.safetensors")
    edit(copied, lambda c: c["proposals"]["q2"].update(file="../elsewhere.safetensors"))
    with pytest.raises(StoredFileError, match="no weights of this folder"):
        load_proposals("tail-1d", folder=copied)
    edit(copied, lambda c: c["proposals"]["q2"].update(file="q2\0"))
    with pytest.raises(StoredFileError, match="no weights of this folder"):
        load_proposals("tail-1d", folder=copied)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("fingerprint"), r"config\.json: does not say for which problem"),
        (lambda c: c["proposals"]["q2"].update(sha256=None), "not the recorded None"),
        (
            lambda c: c.update(fingerprint={"f": [0.0]}),
            r"made for tail-1d with another f, .*, not for tail-1d",
        ),
        (lambda c: c.update(format=99), r"config\.json: not a configuration of format 1"),
        (lambda c: c["proposals"].pop("q1_plus"), r"config\.json: does not fit .*'q1_plus'"),
        (
            lambda c: c["proposals"]["q1_plus"].update(family="maf"),
            r"config\.json: family 'maf' of q1_plus\.safetensors is not one of",
        ),
        (lambda c: c.update(proposals=[c["proposals"]]), r"config\.json: does not fit .*list"),
        (
            lambda c: c["proposals"]["q1_plus"]["arguments"].update(bins=5),
            r"config\.json: does not fit these weights",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(copied, change, message):
    edit(copied, change)
    with pytest.raises(StoredFileError, match=message):
        load_proposals("tail-1d", folder=copied)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"variant: expected .*spline.*oracle.*, got 'maf'"):
        load_proposals("tail-1d", variant="maf")
    with pytest.raises(ValueError, match=r"^variant: expected one of .*defensive for "):
        load_proposals("tail-5d", variant="oracle")
    with pytest.raises(ValueError, match="problem: expected one of tail-1d"):
        load_proposals("head-1d")
    with pytest.raises(ValueError, match=r"^proposals: none ship .* folder.*'defensive'$"):
        load_proposals(type("Other", (type(problem("peak")),), {"name": "other"})())


def test_a_folder_holds_the_variant_that_is_asked_for(copied):
    assert load_proposals("tail-1d", folder=copied).variant == "spline"
    assert load_proposals("tail-1d", variant="spline", folder=copied).variant == "spline"
    for other in ("paper", "oracle"):
        with pytest.raises(ValueError, match=rf"^variant: .* holds 'spline', got '{other}'"):
            load_proposals("tail-1d", variant=other, folder=copied)


def test_what_learn_gave_is_the_same_after_saving_and_loading(tmp_path):
    own = copy.copy(problem("gain-loss"))
    own.name = "mine"
    learnt = learn(own, steps=1)
    folder = learnt.save(tmp_path / "kept")
    loaded = load_proposals(own, folder=folder)
    assert (loaded.problem, loaded.variant, loaded.present) == ("mine", "learnt", (0, 1, 2))
    assert loaded.card["configuration"]["steps"] == {"q1_plus": 1, "q1_minus": 1, "q2": 1}
    value, again = (estimate(own, each, 1.0, 0.4, draws=16).value for each in (learnt, loaded))
    assert value == again
    with pytest.raises(ValueError, match=r"^folder: .*kept holds proposals already"):
        learnt.save(folder)
    # It is the same problem under another name.
    assert load_proposals("gain-loss", folder=folder).problem == "gain-loss"
    with pytest.raises(ValueError, match=r"^proposals: none ship with the package for mine"):
        load_proposals(own)


def model_called(name, bound):
    return model(
        prior=Normal(0.0, 1.0),
        likelihood=lambda x: Normal(x, 1.0),
        f=lambda x, theta: x > theta + bound,
        theta=Uniform(0.0, 5.0),
        name=name,
    )


def test_proposals_of_another_problem_of_the_name_are_refused(tmp_path):
    one, another = model_called("model", 0.0), model_called("model", 1.0)
    at, reason = {"y": 1.0, "theta": 2.0}, "model with another f"
    learnt = learn(one, steps=1, folder=tmp_path / "kept")
    wide = {
        "q1_plus": lambda y, theta: Normal(0 * y + 2, 1.0),
        "q2": lambda y, theta: Normal(y, 1.0),
    }
    outside = Proposals.from_distributions(one, **wide)
    for proposals in (learnt, outside, load_proposals(one, variant="defensive")):
        assert estimate(model_called("model", 0.0), proposals, **at).value > 0
        with pytest.raises(ValueError, match=rf"^proposals: .*, got proposals for {reason}"):
            estimate(another, proposals, **at)
    with pytest.raises(StoredFileError, match=rf"made for {reason}, .*not for model. Train anew"):
        load_proposals(another, folder=tmp_path / "kept")
    q2 = load_proposals("cancer")
    with pytest.raises(ValueError, match=r"^q2: .* got one for cancer with another log_prior"):
        learn(one, steps=1, q2=q2)


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
    at = {"y": 1.0, "theta": 3.0, "draws": 16}
    tail = problem("tail-1d")
    assert estimate(tail, copied, **at).value == estimate(tail, shipped, **at).value
    with pytest.raises(ValueError, match=r"^proposals: expected trained ones, .* got oracle"):
        load_proposals("tail-1d", variant="oracle").save(tmp_path / "oracle")
    assert not (tmp_path / "oracle").exists()


def test_a_replacement_leaves_nothing_of_the_old_and_all_of_others(copied):
    (copied / "thesis.tex").write_text("years")
    for stray in (".q2.safetensors.0a1b2c3d", ".config.json.k3j2h1g0"):
        (copied / stray).write_text("killed here")
    paper = load_proposals("tail-1d", variant="paper")
    for _ in range(2):
        paper.save(copied, replace=True)
        loaded = load_proposals("tail-1d", folder=copied)
        assert (loaded.variant, loaded.card["evaluation"]) == ("paper", None)
        files = {path.name for path in copied.iterdir()}
        weights = {loaded.card["configuration"]["proposals"][q]["file"] for q in ("q1_plus", "q2")}
        assert files == {"config.json", "thesis.tex", *weights}


def test_a_kill_at_any_moment_leaves_the_old_or_the_new(copied, tmp_path, monkeypatch):
    paper = load_proposals("tail-1d", variant="paper")
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
        assert len([*folder.iterdir()]) == 3
        if left[0]:
            break
    assert seen == sorted(seen, reverse=True)
    assert {*seen} == {"spline", "paper"}


REPLACING = """
import sys
from amci_core import load_proposals
both = [load_proposals("tail-1d", variant=name) for name in ("spline", "paper")]
print("ready", flush=True)
while True:
    for proposals in both:
        proposals.save(sys.argv[1], replace=True)
"""


def test_who_reads_while_proposals_are_replaced_has_the_old_or_the_new(copied):
    command = [sys.executable, "-c", REPLACING, str(copied)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        variants = {load_proposals("tail-1d", folder=copied).variant for _ in range(20)}
        assert writer.poll() is None
        writer.kill()
    assert variants == {"spline", "paper"}


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

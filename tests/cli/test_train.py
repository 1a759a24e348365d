"""`amci train`, as a user sees it; where a signal ends it, in a process of its own."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch
from typer.testing import CliRunner

from amci_core import load_proposals
from amci_core.cli import app
from amci_core.training.quality import HeldOut

MAIN = "import sys, amci_core.cli; amci_core.cli.main(sys.argv[1:])"
OPTIONS = ["train", "tail-1d", "--minutes", "0.0167", "--seed", str(2**63 - 1), "--out"]

FEW = {"cases": 16, "draws": 32}
# It saves after every step, so that a training can be broken off early.
SCRIPT = (
    "import sys, amci_core.cli; import amci_core.training; "
    "sys.modules['amci_core.training.learn'].SECONDS_BETWEEN_SAVES = 0.0; "
    "sys.modules['amci_core.training.quality'].HeldOut.__init__.__kwdefaults__"
    f".update({FEW}); "
    "amci_core.cli.main(sys.argv[1:])"
)


@pytest.fixture(scope="module", autouse=True)
def few_cases():
    """Weights judged on fewer cases and draws."""
    with pytest.MonkeyPatch.context() as patch:
        for option, number in FEW.items():
            patch.setitem(HeldOut.__init__.__kwdefaults__, option, number)
        yield


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A training from start to end: its folder and what it said."""
    folder = tmp_path_factory.mktemp("unbroken") / "out"
    done = CliRunner().invoke(app, [*OPTIONS, str(folder)])
    assert done.exit_code == 0, done.stderr
    return folder, done


@pytest.mark.slow
@pytest.mark.xdist_group("train")
def test_it_trains_judges_and_says_where(unbroken):
    folder, done = unbroken
    assert done.stdout.replace("\n", "").startswith("trained: ")
    assert all(word in done.stderr for word in ("q1_plus", "loss", "validation"))
    assert load_proposals("tail-1d", folder=folder).verdict


# Ctrl-C is ignored by what a script starts in the background.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "of_ctrl_c"),
    [(signal.SIGINT, "default_int_handler"), (signal.SIGTERM, "SIG_IGN")],
    ids=["ctrl-c", "terminate"],
)
def test_a_stop_keeps_the_best_so_far(tmp_path, how, of_ctrl_c):
    out = tmp_path / "out"
    script = f"import signal; signal.signal(signal.SIGINT, signal.{of_ctrl_c}); {MAIN}"
    options = ["train", "tail-1d", "--minutes", "0.333", "--out", str(out)]
    arguments = [sys.executable, "-c", script, *options]
    running = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    snapshots = out / "snapshots"  # the first is of step 0, the second of a few steps later
    deadline = time.monotonic() + 300
    while len([*snapshots.glob("*.safetensors")]) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(how)
    _, stderr = running.communicate(timeout=300)
    assert running.returncode == 130
    assert stderr.count("interrupted") == 1
    assert f"interrupted; the best so far is in {out}, go on with resume\n" in stderr
    config = json.loads((out / "config.json").read_text())
    assert "verdict" not in config
    stopped_at = config["steps"]["q1_plus"]
    assert 0 < stopped_at
    load_proposals("tail-1d", folder=out)


def steps_of(folder):
    config = folder / "config.json"
    return json.loads(config.read_text())["steps"] if config.exists() else {}


@pytest.mark.slow
@pytest.mark.xdist_group("train")
def test_a_killed_training_resumes_to_the_weights_of_an_unbroken_one(unbroken, tmp_path):
    whole, _ = unbroken
    broken = tmp_path / "broken"
    command = [sys.executable, "-c", SCRIPT, *OPTIONS, str(broken)]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not steps_of(broken).get("q1_plus", 0) > 20 and time.monotonic() < deadline:
        time.sleep(0.02)
    running.kill()
    running.wait(timeout=300)
    assert "q2" not in steps_of(broken)

    resumed = CliRunner().invoke(app, [*OPTIONS, str(broken), "--resume"])
    assert resumed.exit_code == 0, resumed.stderr
    one, other = (load_proposals("tail-1d", folder=made) for made in (broken, whole))
    for name in ("q1_plus", "q2"):
        pair = (getattr(made, name).state_dict().values() for made in (one, other))
        assert all(torch.equal(a, b) for a, b in zip(*pair, strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "0"], "minutes: expected "),
        (["--minutes", "0", "--variant", "learnt"], "minutes: expected "),
        (["--variant", "maf"], "variant: expected one of paper, spline"),
        (["--seed", "-1"], "seed: expected"),
        (["--resume"], "holds no proposals"),
        (["--source", "mcmc"], "settings: expected cases, from_proposal"),
        (
            ["--source", "mcmc", "--variant", "learnt"],
            "settings: expected none for this objective",
        ),
        (["--bins", "8"], "bins: spline has its own, got 8. Leave it out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(run, tmp_path, options, message):
    code, out, err = run("train tail-1d --out", tmp_path / "out", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [[], ["--variant", "learnt"]])
def test_a_folder_of_others_is_refused_before_anything_is_trained(run, tmp_path, options):
    (tmp_path / "thesis.tex").write_text("years")
    code, _, err = run("train tail-1d --out", tmp_path, *options)
    assert code == 2
    expected = f"amci: folder: {tmp_path} holds files, such as thesis.tex. Choose a new or empty"
    assert err.startswith(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("problem", ["tail-1d", "no-such"])
def test_a_program_that_ends_takes_no_folder_with_it(tmp_path, problem):
    (tmp_path / "thesis.tex").write_text("years")
    options = ["--variant", "learnt", "--attached", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "amci_core", "train", problem, *options]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert (tmp_path / "thesis.tex").read_text() == "years"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of a file's size")
@pytest.mark.parametrize("options", [[], ["--variant", "learnt"]])
def test_a_full_disk_is_one_line(run, tmp_path, options):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        code, _, err = run(*OPTIONS, tmp_path / "out", *options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 2
    (line,) = (line for line in err.splitlines() if line.startswith("amci: "))
    assert "cannot be written (File too large)" in line

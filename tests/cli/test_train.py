"""`amci train`, as a user sees it; where a signal ends it, in a process of its own."""

import json
import signal
import subprocess
import sys
import time

import pytest
from serving import PATIENCE

from amci_core.training.quality import HeldOut

TRAIN = "train tail-1d --minutes 0.1 --out"


MAIN = "import sys, amci_core.cli; amci_core.cli.main(sys.argv[1:])"


# Ctrl-C is ignored by what a script starts in the background.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "of_ctrl_c"),
    [(signal.SIGINT, "default_int_handler"), (signal.SIGTERM, "SIG_IGN")],
    ids=["ctrl-c", "terminate"],
)
def test_a_stop_keeps_the_best_so_far_and_resume_goes_on(
    run, tmp_path, monkeypatch, how, of_ctrl_c
):
    out = tmp_path / "out"
    script = f"import signal; signal.signal(signal.SIGINT, signal.{of_ctrl_c}); {MAIN}"
    command = [sys.executable, "-c", script, *TRAIN.split(), str(out)]
    stopped = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + PATIENCE
    # The first checkpoint is of step 0, the second of a few steps later.
    while len([*out.glob("snapshots/*.safetensors")]) < 2:
        assert time.monotonic() < deadline, "no second checkpoint"
        time.sleep(0.05)
    stopped.send_signal(how)
    _, stderr = stopped.communicate(timeout=deadline - time.monotonic())
    assert stopped.returncode == 130
    assert f"interrupted; the best so far is in {out}, go on with resume\n" in stderr
    config = json.loads((out / "config.json").read_text())
    assert "verdict" not in config
    assert config["steps"]["q1_plus"] > 0

    for option, number in (("cases", 16), ("draws", 32)):
        monkeypatch.setitem(HeldOut.__init__.__kwdefaults__, option, number)
    code, said, err = run(TRAIN, out, "--resume")
    assert (code, said.replace("\n", "")) == (0, f"trained: {out}")
    assert all(word in err for word in ("q1_plus", "loss", "validation"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--minutes 0", "minutes: expected "),
        ("--variant maf", "variant: expected one of paper, spline"),
        ("--resume", "holds no proposals"),
        ("--source mcmc --variant learnt", "settings: expected none for this objective"),
        ("--bins 8", "bins: spline has its own, got 8. Leave it out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(run, tmp_path, options, message):
    code, out, err = run("train tail-1d --out", tmp_path / "out", options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (tmp_path / "out").exists()

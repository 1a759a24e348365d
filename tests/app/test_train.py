"""Training on the page: its process, its queue and its card; its download."""

import asyncio
import os
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from amci_explorer.compute.training import TrainingRequest, TrainingSession, places
from amci_explorer.problems import registry, session_proposals
from amci_explorer.state.state import State
from amci_explorer.views.train import about_training
from bokeh.document import Document
from own_problems import SQUARE
from servers import run_apart

import amci_core as amci
from amci_core.training import Choices

PROBLEM = amci.problem("tail-1d")
# A training comes after all else on a busy machine.
PATIENCE = 700
ROOT = Path(__file__).resolve().parents[2]
# SNIS q_m has so many times the error of AMCI, where f is rare enough to tell them apart.
THETAS, TIMES = (2.5, 3.0, 4.0), 30
# What `amci train` reports and saves, without training.
PROGRAM = """
import json, os, shutil, signal, sys, time

# So are children of a server that a script started in the background.
signal.signal(signal.SIGINT, signal.SIG_IGN)
folder, made, then = sys.argv[1:]

def say(**line):
    print(json.dumps(line), flush=True)

say(message="q1_plus: a plan")
if then == "fail":
    sys.exit("amci: tail-1d cannot be learnt, in " + folder)
if then == "die":
    os.kill(os.getpid(), 9)
for step in range(3):
    if then != "wait for nothing":
        shutil.copytree(made, folder, dirs_exist_ok=True)
        say(saved=folder)
    figures = {"relative_variance": 0.2, "best": 0.1, "seconds": step, "left": 9 - step}
    say(proposal="q1_plus", stage="refine", step=step, loss=None, **figures)
if then.startswith("wait"):
    time.sleep(600)
"""


class Page(Document):
    """A document whose turn comes at once."""

    def add_next_tick_callback(self, callback):
        asyncio.get_running_loop().call_soon(callback)


def request(name="mine", problem="tail-1d", minutes=10.0):
    return TrainingRequest(problem, name, Choices(), minutes, 0)


async def until(true):
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@pytest.fixture
def state():
    created = State("tail-1d")
    yield created
    session_proposals.forget(created)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Has a training's process do what is said, in the place of training."""
    made = amci.load_proposals("tail-1d").save(tmp_path / "made")

    def use(then):
        def command(request, folder):
            return [sys.executable, "-c", PROGRAM, str(folder), str(made), then]

        monkeypatch.setattr(TrainingRequest, "command", command)

    return use


def train(body, state, at_a_time=1):
    """Runs a body with a training session, and closes that."""

    async def inside():
        session = TrainingSession(state, Page(), places=asyncio.Semaphore(at_a_time))
        try:
            await body(session)
        finally:
            session.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)

    run_apart(inside())


def is_alive(pid):
    """Whether there is such a process, other than one that only waits to be asked for its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_better_proposals_are_taken_under_one_name_and_chosen(state, program):
    async def body(session):
        program("end")
        revisions = []
        session.watch = lambda: revisions.append(state.settings.revision)
        session.start(request())
        with pytest.raises(ValueError, match="a training is running"):
            session.start(request())
        await until(lambda: not session.busy)
        assert not session.message
        # None, one on the way, and those at the end.
        assert len(set(revisions)) == 3
        assert [each["step"] for each in session.reports] == [0, 1, 2]
        assert session.proposals.variant == state.variant
        assert (
            registry.proposals("tail-1d", session.proposals.variant).variant
            == session.proposals.variant
        )
        assert session.proposals.variant in state.options("variant")
        assert session.proposals.variant not in State("tail-1d").options("variant")
        assert f"{session.proposals.variant} was trained" in about_training(session)

    train(body, state)


def test_a_training_for_another_problem_does_not_change_what_is_looked_at(state, program):
    async def body(session):
        program("end")
        session.start(request())
        state.open("peak")
        await until(lambda: not session.busy)
        assert state.variant == "spline"
        assert session.proposals.variant in registry.variants("tail-1d", state)

    train(body, state)


@pytest.mark.parametrize(
    ("then", "said"),
    [("wait", "is the best up to that point"), ("wait for nothing", "Stopped before the first")],
)
def test_a_stop_keeps_the_best(state, program, then, said):
    async def body(session):
        program(then)
        session.start(request())
        await until(lambda: len(session.reports) == 3)
        session.stop()
        await until(lambda: not session.busy)
        assert session.stopped
        assert not session.message
        assert said in about_training(session)
        assert bool(session.proposals) == (then == "wait")

    train(body, state)


@pytest.mark.parametrize(
    ("then", "said"),
    [("fail", "failed: tail-1d cannot be learnt."), ("die", "ended by signal 9; perhaps")],
)
def test_a_failure_is_said_and_another_training_may_begin(state, program, then, said):
    async def body(session):
        program(then)
        session.start(request())
        await until(lambda: not session.busy)
        assert said in about_training(session)
        program("end")
        session.start(request())
        await until(lambda: not session.busy)
        assert session.proposals.variant

    train(body, state)


def test_who_waits_moves_up(state, program):
    async def body(first):
        program("wait")
        others = [TrainingSession(State("tail-1d"), Page(), places=first._places) for _ in "ab"]
        for each in (first, *others):
            each.start(request())
        await until(lambda: first.reports)
        assert about_training(others[0]) == "Waiting for another training to end."
        # Who only waits stops at once; who is over makes room.
        others[0].stop()
        assert about_training(others[0]) == (
            "Stopped before the first proposals were saved: there are none to keep."
        )
        first.stop()
        await until(lambda: others[1].reports)
        others[1].close()

    train(body, state)


def test_a_browser_trains_one_at_a_time(state, program):
    async def body(first):
        program("wait")
        theirs, same = (
            TrainingSession(State("tail-1d"), Page(), browser, places=first._places)
            for browser in ("another", first.browser)
        )
        for each in (first, same, theirs):
            each.start(request())
        await until(lambda: first.pid and theirs.pid)
        assert same.waiting
        theirs.close()
        same.close()

    train(body, state, at_a_time=2)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")
def test_the_process_ends_with_the_page(state, program):
    async def body(session):
        program("wait")
        session.start(request())
        await until(lambda: session.reports)
        pid = session.pid
        session.close()
        await until(lambda: not Path(f"/proc/{pid}").exists())

    train(body, state)


SERVER = """
import asyncio, os, sys
sys.path.insert(0, "tests/app")
from test_train import Page, request, until
from amci_explorer.compute.training import TrainingSession
from amci_explorer.state.state import State

async def main():
    session = TrainingSession(State("tail-1d"), Page())
    session.start(request())
    await until(lambda: session.log)
    print(session.pid, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")
def test_the_process_ends_with_the_server_however_that_ends():
    path = os.pathsep.join(str(ROOT / each) for each in ("", "app", "tests"))
    done = subprocess.run(
        [sys.executable, "-c", SERVER],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    ended = time.monotonic()
    while is_alive(int(done.stdout)):
        assert time.monotonic() < ended + 3
        time.sleep(0.05)


@pytest.mark.parametrize("odd", ["0", "two"])
def test_the_environment_is_checked(monkeypatch, odd):
    monkeypatch.setenv("AMCI_TRAININGS", odd)
    places.cache_clear()
    with pytest.raises(ValueError, match=r"^AMCI_TRAININGS: expected"):
        places()


def test_a_problem_is_named_as_the_command_line_takes_it(new, tmp_path):
    f = registry.problem("tail-1d", "x1 > theta1").name
    command = replace(request(problem=f), choices=Choices("spline", 12)).command(Path("out"))
    assert command[4] == "tail-1d"
    assert {"--f=x1 > theta1", "--variant=learnt", "--family=spline", "--bins=12"} < set(command)
    problem, _ = new(**SQUARE)
    with pytest.raises(ValueError, match="Start the server with its file"):
        request(problem=problem.name).command(tmp_path)


@pytest.mark.slow
def test_twenty_seconds_beat_the_mixture_thirty_times(state):
    seconds = 20

    async def body(session):
        session.start(request(minutes=seconds / 60))
        await until(lambda: not session.busy)
        assert not session.message
        # It has computed for no longer than it was asked to, whatever else the machine did.
        assert session.reports[-1]["seconds"] < 1.3 * seconds
        assert "held-out cases" in about_training(session)
        learnt = session.proposals
        for theta in THETAS:
            curves = amci.error_curves(
                PROBLEM,
                learnt,
                1.0,
                theta,
                draws=[1000],
                runs=400,
                estimators=["amci", "snis-qm"],
                seed=1,
            ).by_name
            error, of_mixture = (
                np.median(curves[n].remse_quartiles[1]) for n in ("amci", "snis-qm")
            )
            assert TIMES * error < of_mixture, theta

    train(body, state)


@pytest.fixture
def at_the_card(in_a_loop):
    """Runs a test's body with the page, the card, and the requests that come from it."""

    def run(body):
        def inside(turned):
            turned.does, noted = True, []
            training = turned.explorer.training

            def start(request):
                noted.append(request)
                training.request, training._task = request, True
                training.watch()

            training.start, training.close = start, lambda: None
            turned.explorer.state.set(card="train")
            turned.explorer.state.commit()
            body(turned, turned.explorer.tabs.card, noted)
            session_proposals.forget(turned.explorer.state)

        in_a_loop(inside)

    return run


def fill(card, **texts):
    for name, text in texts.items():
        card.fields[name].value = text


def test_what_is_chosen_is_asked_for(at_the_card):
    def body(turned, card, noted):
        assert list(card.family.options.values()) == [
            "",
            "half-line",
            "half-line from zero",
            "spline",
        ]
        card.family.value = "spline"
        fill(card, bins="12", width="24", minutes="0.33", seed="3", name="my-own")
        card.start_button.clicks += 1
        expected = TrainingRequest("tail-1d", "my-own", Choices("spline", 12, 24), 0.33, 3)
        assert noted == [expected]
        assert card.start_button.disabled
        assert not card.stop_button.disabled

    at_the_card(body)


WRONG = [
    ("bins", "3", "from 4 to 128"),
    ("bins", "many", "expected a whole number"),
    ("width", "5000", "from 4 to 1,024"),
    ("minutes", "0", "0.05"),
    ("minutes", "nan", "expected"),
    ("seed", "-1", "expected"),
    ("name", "", "letters, digits and dashes"),
    ("name", "a b", "letters, digits and dashes"),
    ("name", "x" * 35, "letters, digits and dashes"),
    ("name", "spline", "proposals called spline exist already"),
    ("name", "oracle", "already"),
]


def test_bad_input_is_told_beside_the_field_and_nothing_is_lost(at_the_card):
    def body(turned, card, noted):
        good = {"bins": "9", "width": "20", "minutes": "2", "seed": "5", "name": "good"}
        for name, text, said in WRONG:
            fill(card, **{**good, name: text})
            card.start_button.clicks += 1
            assert not noted
            for each, field in card.fields.items():
                assert field.error_state == (each == name)
                assert field.value == {**good, name: text}[each]
            assert said in card.fields[name].helper_text
        fill(card, **good)
        card.start_button.clicks += 1
        assert len(noted) == 1

    at_the_card(body)


def test_another_f_is_trained_for_under_its_own_name(at_the_card):
    def body(turned, card, noted):
        turned.explorer.state.open("tail-1d", f="x1 > theta1")
        card.start_button.clicks += 1
        assert noted[0].problem == turned.explorer.state.problem.name

    at_the_card(body)


def test_the_card_shows_what_is_reported(at_the_card):
    def body(turned, card, noted):
        card.start_button.clicks += 1
        training = turned.explorer.training
        training.log.append("q1_plus: <a plan>")
        figures = {"relative_variance": 0.2, "best": 0.1, "seconds": 5.0, "left": 25.0}
        report = {"proposal": "q1_plus", "stage": "refine", "step": 30, "loss": -0.5, **figures}
        training.reports.append(report)
        training.watch()
        assert "step 30;" in card.progress_line.object
        assert "about 25 s left" in card.progress_line.object
        assert "&lt;a plan&gt;" in card.said.object
        assert list(card.sources["q1_plus"].data["loss"]) == [-0.5]
        assert not card.stop_button.disabled

    at_the_card(body)


def test_the_legend_names_the_proposals_that_are_trained(at_the_card):
    def body(turned, card, noted):
        for problem, names in (
            ("tail-1d", ["q₁", "q₂", "q₁ᶜ"]),
            ("gain-loss", ["q₁", "q₁⁻", "q₂"]),
            ("peak", ["q₁", "q₁ᶜ"]),
        ):
            turned.explorer.state.open(problem)
            items = card.pictures["loss"].legend[0].items
            assert [item.label.value for item in items if item.visible] == names

    at_the_card(body)


def test_a_download_holds_what_was_trained(tmp_path, at_the_card):
    made = amci.load_proposals("tail-1d")

    def body(turned, card, noted):
        turned.explorer.training.proposals = made
        turned.explorer.training.watch()
        with zipfile.ZipFile(card.download.callback()) as archive:
            archive.extractall(tmp_path / "mine")

    at_the_card(body)
    found = amci.load_proposals(PROBLEM, folder=tmp_path / "mine")
    for a, b in zip(
        made.q1_plus.state_dict().values(), found.q1_plus.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b)

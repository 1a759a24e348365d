"""Training on the page: its process, its queue and its card; its download."""

import asyncio
import os
import sys
import time
import zipfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch
from amci_explorer.compute.training import TrainingRequest, TrainingSession, places
from amci_explorer.problems import registry, session_proposals
from amci_explorer.state.case import Case
from amci_explorer.views.train import about_training
from bokeh.document import Document
from own_problems import SQUARE
from serving import PATIENCE

import amci_core as amci
from amci_core.training import Choices

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


def request(state=None, minutes=10.0, **choices):
    state = state or Case("tail-1d")
    return TrainingRequest(state.settings, Choices(minutes=minutes, **choices))


async def until(true):
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.01)


@pytest.fixture
def state():
    created = Case("tail-1d")
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


@pytest.fixture(autouse=True)
def one_place(monkeypatch):
    """One training at a time, unless a test says otherwise; counted anew in each loop."""
    monkeypatch.setenv("AMCI_TRAININGS", "1")
    places.cache_clear()
    yield
    places.cache_clear()


@asynccontextmanager
async def session_of(state):
    """A training session, which is closed at the end."""
    session = TrainingSession(state, Page())
    try:
        yield session
    finally:
        session.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)


async def test_better_proposals_are_taken_under_one_name_and_chosen(state, program):
    async with session_of(state) as session:
        program("end")
        revisions = []
        session.watch = lambda: revisions.append(state.settings.revision)
        session.start(request())
        await until(lambda: not session.busy)
        assert not session.message
        # None, one on the way, and those at the end.
        assert len(set(revisions)) == 3
        assert [each["step"] for each in session.reports] == [0, 1, 2]
        name = session.proposals.variant
        assert state.variant == registry.proposals("tail-1d", name).variant == name
        assert name in state.options("variant")
        assert name not in Case("tail-1d").options("variant")
        assert f"{name} was trained" in about_training(session)


async def test_a_training_for_another_problem_changes_what_is_seen_when_it_is_used(state, program):
    async with session_of(state) as session:
        program("end")
        session.start(request())
        state.open("peak")
        await until(lambda: not session.busy)
        assert (state.original, state.variant) == ("peak", "spline")
        session.use()
        assert (state.original, state.variant) == ("tail-1d", session.proposals.variant)


ENDS = {
    "wait": "is the best so far",
    "wait for nothing": "Stopped before the first",
    "fail": "failed: tail-1d cannot be learnt.",
    "die": "ended by signal 9; perhaps",
}


@pytest.mark.parametrize("then", ENDS)
async def test_a_stop_or_a_failure_is_said_and_another_training_may_begin(state, program, then):
    async with session_of(state) as session:
        program(then)
        session.start(request())
        if then.startswith("wait"):
            await until(lambda: len(session.reports) == 3)
            session.stop()
        await until(lambda: not session.busy)
        assert ENDS[then] in about_training(session)
        assert bool(session.proposals) == (then == "wait")
        program("end")
        session.start(request())
        await until(lambda: not session.busy)
        assert session.proposals


async def test_who_waits_moves_up(state, program):
    async with session_of(state) as first:
        program("wait")
        others = [TrainingSession(Case("tail-1d"), Page()) for _ in "ab"]
        for each in (first, *others):
            each.start(request())
        await until(lambda: first.reports)
        assert about_training(others[0]) == "Waiting for another training to end."
        # Who only waits stops at once; who is over makes room.
        others[0].stop()
        assert "Stopped before the first" in about_training(others[0])
        first.stop()
        await until(lambda: others[1].reports)
        others[1].close()


async def test_a_browser_trains_one_at_a_time(state, program, monkeypatch):
    monkeypatch.setenv("AMCI_TRAININGS", "2")
    async with session_of(state) as first:
        program("wait")
        theirs, same = (
            TrainingSession(Case("tail-1d"), Page(), browser)
            for browser in ("another", first.browser)
        )
        for each in (first, same, theirs):
            each.start(request())
        await until(lambda: first.process and theirs.process)
        assert same.waiting
        theirs.close()
        same.close()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")
async def test_the_process_ends_with_the_page(state, program):
    async with session_of(state) as session:
        program("wait")
        session.start(request())
        await until(lambda: session.reports)
        pid = session.process.pid
        session.close()
        await until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_problem_is_named_as_the_command_line_takes_it(new, state, tmp_path):
    state.open("tail-1d", f="x1 > theta1")
    command = request(state, family="spline", bins=12).command(Path("out"))
    assert command[4] == "tail-1d"
    assert {"--f=x1 > theta1", "--variant=learnt", "--family=spline", "--bins=12"} < set(command)
    problem, _ = new(**SQUARE)
    with pytest.raises(ValueError, match="Start the server with its file"):
        request(Case(problem.name)).command(tmp_path)


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


def test_what_is_chosen_is_asked_for_at_the_problem_and_f_that_are_open(at_the_card):
    def body(turned, card, noted):
        state = turned.explorer.state
        families = ["half-line", "half-line from zero", "spline"]
        assert card.form["family"].options == ["automatic", *families]
        state.open("tail-1d", f="x1 > theta1")
        for name, value in {"family": "spline", "minutes": 1 / 3}.items():
            card.form[name].value = value
        start, stop, _ = card.buttons.values()
        start.clicks += 1
        assert noted == [request(state, 1 / 3, family="spline")]
        assert start.disabled
        assert not stop.disabled

    at_the_card(body)


def test_the_card_shows_what_is_reported(at_the_card):
    def body(turned, card, noted):
        card.buttons["Start"].clicks += 1
        training = turned.explorer.training
        figures = {"relative_variance": 0.2, "best": 0.1, "seconds": 5.0, "left": 25.0}
        report = {"proposal": "q1_plus", "stage": "refine", "step": 30, "loss": -0.5, **figures}
        training.reports.append(report)
        training.watch()
        assert "25 s left" in card.progress_line.object
        assert "step 30: relative variance on held-out cases 0.1" in card.progress_line.object
        assert list(card.sources["q1_plus"].data["best"]) == [0.1]
        assert not card.buttons["Stop"].disabled

    at_the_card(body)


def test_a_download_holds_what_was_trained_and_a_script_that_uses_it(tmp_path, at_the_card):
    made = amci.load_proposals("tail-1d")

    def body(turned, card, noted):
        state, training = turned.explorer.state, turned.explorer.training
        card.buttons["Start"].clicks += 1
        training.proposals = session_proposals.add("tail-1d", "mine", made, state, taken=())
        training.watch()
        assert not card.buttons["Use these proposals"].disabled
        card.buttons["Use these proposals"].clicks += 1
        assert state.variant == training.proposals.variant
        assert card.buttons["Use these proposals"].disabled
        with zipfile.ZipFile(card.download.callback()) as archive:
            archive.extractall(tmp_path)
        os.rename(tmp_path / state.variant, tmp_path / "mine")
        os.rename(tmp_path / f"{state.variant}.py", tmp_path / "mine.py")

    at_the_card(body)
    found = amci.load_proposals("tail-1d", folder=tmp_path / "mine")
    x = torch.linspace(3.1, 5, 9)[:, None]
    pair = amci.problem("tail-1d").check(1.0, 3.0)
    one, other = (each.at(*pair)[0].log_prob(x) for each in (made, found))
    assert torch.equal(one, other)
    assert "folder='mine" in (tmp_path / "mine.py").read_text()

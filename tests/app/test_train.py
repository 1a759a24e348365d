"""The card that trains: what it asks for and shows; proposals as files, checked like our own."""

import copy
import io
import json
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import works
from amci_explorer.compute.archive import packed, unpacked
from amci_explorer.compute.lane import Lane
from amci_explorer.compute.learner import OVER, Learner
from amci_explorer.compute.trainee import Order, Report
from amci_explorer.problems import registry, session_proposals
from amci_explorer.state.state import State
from amci_explorer.words.train import about_phase
from servers import Server, Threads

import amci_core as amci
from amci_core.training import Choices

PROBLEM = amci.problem("tail-1d")


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def state():
    created = State("tail-1d")
    yield created
    session_proposals.forget(created)


def learner_of(state, server, target):
    return Learner(state, server, server, of=Lane(1, target=target, context=Threads))


def order(name="mine", problem="tail-1d"):
    return Order(problem, name, Choices(), 10.0, 0)


def test_better_proposals_are_taken_up_under_one_name_and_chosen(state, server):
    learner, revisions = learner_of(state, server, works.references), []

    def look():
        if learner.variant and state.settings.revision not in revisions:
            revisions.append(state.settings.revision)
            # What the page shows is what was sent.
            shown = registry.proposals("tail-1d", learner.variant)
            assert shown.variant == learner.variant == state.variant
            learner._renewed = -np.inf
            if learner._training is not None:
                learner._training._order("go on")

    learner.watch(look)
    learner.start(order())
    server.run_until(lambda: learner.phase == OVER)
    assert not learner.message
    assert len(revisions) == 3
    assert [each.step for each in learner.reports] == [0, 1, 2]
    assert learner.variant in state.options("variant")
    assert learner.variant not in State("tail-1d").options("variant")
    assert learner.variant in about_phase(learner)


def test_a_training_for_another_problem_does_not_change_what_is_looked_at(state, server):
    learner = learner_of(state, server, works.references)
    learner.watch(lambda: learner._training and learner._training._order("go on"))
    learner.start(order())
    state.open("peak")
    server.run_until(lambda: learner.phase == OVER)
    assert state.variant == "spline"
    assert learner.variant in registry.variants("tail-1d", state)


@pytest.mark.slow
def test_a_crash_is_said_and_another_training_may_begin(state, server):
    learner = Learner(state, server, server, of=Lane(1, target=works.dies))
    learner.start(order())
    server.run_until(lambda: learner.phase == OVER)
    assert "The training failed: the training process ended" in about_phase(learner)
    learner.start(order())
    with pytest.raises(ValueError, match="under way"):
        learner.start(order())
    learner.close()


def test_a_stop_is_said(state, server):
    learner = learner_of(state, server, works.obeys)
    learner.start(order())
    server.run_until(lambda: learner.said)
    learner.stop()
    server.run_until(lambda: learner.phase == OVER)
    assert about_phase(learner) == "Stopped before there was anything to keep."


def test_who_waits_is_told_their_place(state, server):
    learner = learner_of(state, server, works.obeys)
    learner.start(order())
    others = [Learner(State("tail-1d"), server, server, of=learner._lane) for _ in range(2)]
    for each in others:
        each.start(order())
    server.run_until(lambda: others[1].ahead)
    assert about_phase(others[0]) == "Waiting: yours is next."
    assert about_phase(others[1]) == "Waiting: one training is ahead of yours."
    for each in (learner, *others):
        each.close()


class Noted:
    """A lane that begins nothing."""

    def __init__(self):
        self.orders = []

    def enter(self, asked, tell):
        self.orders.append(asked)
        self.tell = tell
        return SimpleNamespace(leave=lambda: None, stop=lambda: None)


@pytest.fixture
def at_the_card(in_a_loop):
    """Runs a test's body with the page, the card, and the lane that its orders come to."""

    def run(body):
        def inside(turned):
            turned.does = True
            turned.explorer.learner._lane = noted = Noted()
            turned.explorer.state.set(card="train")
            turned.explorer.state.commit()
            body(turned, turned.explorer.tabs.card, noted)
            session_proposals.forget(turned.explorer.state)

        in_a_loop(inside)

    return run


def fill(card, **texts):
    for name, text in texts.items():
        card.form.fields[name].value = text


def test_what_is_chosen_is_asked_for(at_the_card):
    def body(turned, card, noted):
        assert list(card.form.family.options.values()) == [
            "",
            "half-line",
            "half-line from zero",
            "spline",
        ]
        card.form.family.value = "spline"
        fill(card, bins="12", width="24", minutes="0.33", seed="3", name="my-own")
        card.start_button.clicks += 1
        expected = Order("tail-1d", "my-own", Choices("spline", 12, 24), 0.33, 3)
        assert noted.orders == [expected]
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
    ("name", "spline", "there are proposals called spline already"),
    ("name", "oracle", "already"),
]


def test_bad_input_is_told_beside_the_field_and_nothing_is_lost(at_the_card):
    def body(turned, card, noted):
        good = {"bins": "9", "width": "20", "minutes": "2", "seed": "5", "name": "good"}
        for name, text, said in WRONG:
            fill(card, **{**good, name: text})
            card.start_button.clicks += 1
            assert not noted.orders
            for each, field in card.form.fields.items():
                assert field.error_state == (each == name)
                assert field.value == {**good, name: text}[each]
            assert said in card.form.fields[name].helper_text
        fill(card, **good)
        card.start_button.clicks += 1
        assert len(noted.orders) == 1

    at_the_card(body)


def test_another_f_is_trained_for_under_its_own_name(at_the_card):
    def body(turned, card, noted):
        turned.explorer.state.open("tail-1d", f="x1 > theta1")
        turned.wait()
        card.start_button.clicks += 1
        assert noted.orders[0].problem == turned.explorer.state.problem.name

    at_the_card(body)


def test_the_card_shows_what_is_reported(at_the_card):
    def body(turned, card, noted):
        card.start_button.clicks += 1
        learner = turned.explorer.learner
        report = Report("q1_plus", "refine", 30, -0.5, 0.2, 0.1, 5.0, 25.0)
        for what, value in (("begun", None), ("said", "q1_plus: <a plan>"), ("report", report)):
            learner._take(what, value)
        learner._tell()
        assert "step 30;" in card.progress_bar.object
        assert "about 25 s left" in card.progress_bar.object
        assert "&lt;a plan&gt;" in card.said.object
        assert list(card.learning.sources["q1_plus"].data["loss"]) == [-0.5]
        assert not card.stop_button.disabled

    at_the_card(body)


@pytest.fixture(scope="module")
def mine():
    return replace(amci.load_proposals("tail-1d"), variant="mine")


@pytest.fixture(scope="module")
def content(mine):
    """What a download gives."""
    return packed(mine).getvalue()


def changed(content, change):
    """A zip whose files were changed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def test_what_was_downloaded_can_be_uploaded(at_the_card, content, mine):
    def body(turned, card, noted):
        card.take_file("mine.zip", content)
        assert not card.message.visible
        state = turned.explorer.state
        assert state.variant.startswith("mine")
        found = registry.proposals("tail-1d", state.variant)
        for a, b in zip(
            mine.q1_plus.state_dict().values(), found.q1_plus.state_dict().values(), strict=True
        ):
            assert torch.equal(a, b)
        assert card.download.filename == f"{state.variant}.zip"
        assert unpacked(card._zip().getvalue(), PROBLEM).variant == state.variant

    at_the_card(body)


def test_a_file_with_a_shipped_name_is_refused(at_the_card):
    shipped = packed(amci.load_proposals("tail-1d")).getvalue()

    def body(turned, card, noted):
        card.take_file("spline.zip", shipped)
        assert "there are proposals called spline already" in card.message.object
        assert turned.explorer.state.variant == "spline"

    at_the_card(body)


def edit(old, new):
    def change(files):
        text = files["config.json"].decode()
        assert old in text
        files["config.json"] = text.replace(old, new, 1).encode()

    return change


def rebuild(change):
    """Changes how q1_plus is built."""

    def inside(files):
        config = json.loads(files["config.json"])
        change(config["proposals"]["q1_plus"])
        files["config.json"] = json.dumps(config).encode()

    return inside


def bomb(files):
    files["q2.safetensors"] = bytes(70_000_000)


BAD = {
    "another file": (lambda f: f.update({"run.py": b""}), r"'run\.py' is in it"),
    "a way out": (lambda f: f.update({"../config.json": b"{}"}), "is in it"),
    "a root": (lambda f: f.update({"/q2.safetensors": b""}), "is in it"),
    "no configuration": (lambda f: f.pop("config.json"), "with each file once"),
    "no JSON": (lambda f: f.update({"config.json": b"{"}), r"config\.json: not valid JSON"),
    "a list": (lambda f: f.update({"config.json": b"[]"}), "not a configuration of format"),
    "another problem": (edit('"problem": "tail-1d"', '"problem": "peak"'), "made for the problem"),
    "damaged": (lambda f: f.update({"q2.safetensors": b"1"}), "SHA-256 is not the recorded"),
    "missing": (lambda f: f.pop("q1_plus.safetensors"), "cannot be read"),
    "a bomb": (bomb, "larger than"),
    "weights elsewhere": (
        edit('"file": "q2', '"file": "../q2'),
        "cannot be read|no weights of this",
    ),
    "too wide": (
        rebuild(lambda entry: entry["arguments"].update(hidden=[10**6])),
        "expected whole numbers to 4096",
    ),
    "another family": (rebuild(lambda entry: entry.update(family="none")), "is not one of"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_refused_in_words(content, kind):
    change, said = BAD[kind]
    with pytest.raises(ValueError, match=said) as error:
        unpacked(changed(content, change), PROBLEM)
    # Nothing of the server's disk is told.
    assert "/tmp" not in str(error.value)


@pytest.mark.parametrize("odd", [b"", b"PK", b"no zip" * 100])
def test_what_is_no_zip_is_refused(odd):
    with pytest.raises(ValueError, match="expected a zip file made by Download"):
        unpacked(odd, PROBLEM)


def test_weights_that_are_not_finite_are_refused(mine):
    flow = copy.deepcopy(mine.q1_plus)
    next(iter(flow.parameters())).data.fill_(float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        unpacked(packed(replace(mine, q1_plus=flow)).getvalue(), PROBLEM)


def test_a_bad_file_is_told_beside_the_button_and_not_kept(at_the_card, monkeypatch):
    def body(turned, card, noted):
        monkeypatch.setattr(
            type(turned.explorer.results._jobs),
            "start",
            lambda jobs, name, work, *, show, finish: finish("expected a zip file"),
        )
        card.take_file("bad.zip", b"no zip")
        assert "expected a zip file" in card.message.object
        assert card._brought is None
        assert "train-file" not in turned.explorer.results.all

    at_the_card(body)

"""Bring your draws: what the card shows of a file, and that nobody keeps it."""

import csv
import json
import re
from html import unescape

import numpy as np
import pytest
from amci_explorer.compute.uploads import read_draws, sample_table
from amci_explorer.views.inputs import CHUNK, Upload
from amci_explorer.views.table import frame
from scipy.stats import norm

import amci_core as amci
from amci_core.tabular import read_columns

SAMPLE = sample_table().getvalue()


def opened(turned, query=None):
    """The card of an explorer at work."""
    turned.does = True
    turned.explorer.state.set(card="table")
    turned.explorer.state.commit()
    return turned.explorer.tabs.card


def text_of(card):
    return re.sub("<[^>]*>", " ", card.result.object)


def test_the_card_says_what_the_core_does(in_a_loop):
    expected = amci.estimate_from_draws(read_columns(SAMPLE, name="draws.csv"))
    assert abs(expected.value - norm.sf(2)) < 4 * expected.standard_error

    def body(turned):
        card = opened(turned)
        card.take_file("mine.csv", SAMPLE)
        said = text_of(card)
        assert "AMCI + control variates: Reliable" in said
        assert "mine.csv: 1,000 of q1_plus, 1,000 of q2 draws." in said
        for name, e in expected.estimates.items():
            lines = frame(card.shown.value)
            line = lines[lines["estimator"] == name].iloc[0]
            assert line["value"] == pytest.approx(float(e.value), rel=1e-12)
            assert line["verdict"] == e.verdict.level
        assert f"{float(expected.value):.5f}" in said
        assert not card.upload.message.visible
        lines = list(csv.reader(card.csv.callback()))
        assert lines[0][0] == f"# table=mine.csv (amci-explorer {amci.__version__})"
        assert lines[1][:2] == ["estimator", "value"]
        assert float(lines[2][1]) == pytest.approx(float(expected.value))
        everything = json.load(turned.explorer._everything())
        found = {line["estimator"] for line in everything["results"]["table"]["table"]}
        assert found == expected.estimates.keys()

    in_a_loop(body)


def test_one_component_and_heavy_tails_are_told(in_a_loop):
    x = np.random.default_rng(0).normal(0, 0.3, 2000)
    lines = zip(-np.square(x) / 2, norm.logpdf(x, 0, 0.3), np.square(x), strict=True)
    content = "log_joint,log_q,f\n" + "\n".join(",".join(map(str, each)) for each in lines)

    def body(turned):
        card = opened(turned)
        card.take_file("heavy.csv", content.encode())
        said = text_of(card)
        assert "SNIS: Use more draws" in said
        assert "draws determine its error" in said
        assert "AMCI is not available. There are no draws of q₁⁺." in said

    in_a_loop(body)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "table: cannot be read: Empty CSV file"),
        (b"log_joint,log_q,f\n1,<b>,1\n1,1,1", "could not convert string to float: '<b>'"),
        (b"log_joint,log_q,f\n-1,-1,1\n-1,nan,1", "log_q: expected numbers below infinity"),
    ],
)
def test_what_is_wrong_is_said_beside_the_button(in_a_loop, content, why):
    def body(turned):
        card = opened(turned)
        card.take_file("wrong.csv", content)
        assert card.upload.message.visible
        assert why in unescape(card.upload.message.object)
        assert "<b>" not in card.upload.message.object
        assert card.result.object == ""

    in_a_loop(body)


def test_results_outlive_another_problem(in_a_loop):
    def body(turned):
        card = opened(turned)
        card.take_file("mine.csv", SAMPLE)
        said = card.result.object
        turned.choose("peak")
        assert turned.explorer.tabs.card is card
        assert card.result.object == said
        assert turned.explorer.results.all["table"] is card.shown
        assert "table" in json.load(turned.explorer._everything())["results"]

    in_a_loop(body)


def test_a_file_may_not_take_more_memory_than_is_allowed(monkeypatch):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)

    def greedy(*_, **__):
        return np.ones(2**30)  # 8 GB

    monkeypatch.setattr("amci_explorer.compute.uploads.read_columns", greedy)
    with pytest.raises(ValueError, match="more memory than this server"):
        read_draws("draws.csv", SAMPLE, "f")
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.fixture
def upload(monkeypatch):
    """A button, with what it has taken, refused and answered."""
    taken, refused, answers = [], [], []
    monkeypatch.setattr("amci_explorer.views.inputs.callback", lambda act: act)
    button = Upload(lambda *file: taken.append(file), 3 * CHUNK)
    monkeypatch.setattr(button, "_refuse", refused.append)
    monkeypatch.setattr(button, "_send_msg", answers.append)
    return button, taken, refused, answers


def pieces(content, name="draws.csv"):
    parts = [content[i : i + CHUNK] for i in range(0, len(content), CHUNK)]
    for i, part in enumerate(parts, 1):
        yield {
            "status": "upload_event",
            "name": name,
            "chunk": i,
            "total_chunks": len(parts),
            "mime_type": "text/csv",
            "data": part,
        }


def test_a_file_comes_in_pieces_and_is_not_kept(upload):
    button, taken, refused, answers = upload
    content = bytes(range(256)) * (CHUNK // 100)
    for _ in range(2):
        for each in pieces(content):
            button._handle_msg(each)
        button._handle_msg({"status": "finished"})
    assert taken == [("draws.csv", content)] * 2
    assert refused == []
    assert answers == [{"status": "finished"}] * 2
    assert not button._buffer
    assert not button._file_buffer
    assert button.value is None


def test_more_than_is_allowed_is_refused_and_let_go(upload):
    button, taken, refused, answers = upload
    for number in range(1, 6):
        (each,) = pieces(b"x" * CHUNK)
        button._handle_msg(each | {"chunk": min(number, 4), "total_chunks": 4})
        held = sum(len(p) for f in button._file_buffer.values() for p in f["chunks"].values())
        assert held <= 3 * CHUNK
    assert refused[0] == "expected one file of at most 1 MB"
    assert answers[0]["status"] == "error"
    assert not taken

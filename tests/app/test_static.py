"""The folder of the page without a server."""

import dataclasses
import re

import pytest
from amci_explorer.state.tour import Tour
from amci_explorer.static.__main__ import main
from amci_explorer.static.folder import BOKEH, MARK, html_of, write
from static_steps import STEPS

from amci_core.io import StoredFileError

REFERENCES = re.compile(r"""<[^>]*\s(?:src|href|action)=["']([^"']*)""")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("page") / "made", STEPS)


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "index.html").read_text(encoding="utf-8")


def test_the_folder_holds_a_page_and_bokeh_and_asks_nothing_of_another_host(folder, page):
    assert {path.name for path in folder.iterdir()} == {"index.html", BOKEH, MARK}
    assert [path.name for path in folder.parent.iterdir()] == ["made"]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4e6
    assert {each for each in REFERENCES.findall(page) if each[0] != "#"} == {"data:,", BOKEH}
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket|import)\s*\(", page)


def test_a_step_leads_to_its_case_where_the_page_can_show_it(page):
    rare, needle, sharing, paper = (
        each[: each.index("</details>")] for each in page.split("<details class=card")[1:]
    )
    assert 'href="#problem=tail-1d&amp;y=1.0&amp;theta=3.0"' in rare
    assert "How many draws?" in rare
    assert "#problem=tail-1d" in sharing
    assert "href" not in needle + paper


def test_a_page_is_written_again_and_stays_if_the_new_one_fails(folder, page, monkeypatch):
    monkeypatch.setattr("amci_explorer.static.folder.problem_facts", lambda name: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(folder, ())
    assert (folder / "index.html").read_text("utf-8") == page
    monkeypatch.setattr("amci_explorer.static.folder.problem_facts", lambda name: {"title": ""})
    assert write(folder, ()) == folder
    assert {path.name for path in folder.iterdir()} == {"index.html", BOKEH, MARK}
    assert [path.name for path in folder.parent.iterdir()] == ["made"]


def test_a_folder_of_someone_else_is_refused_and_stays(tmp_path):
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(StoredFileError, match=r"holds files, such as thesis\.tex"):
        write(tmp_path)
    for path in (tmp_path / "thesis.tex" / "page", tmp_path / "thesis.tex"):
        with pytest.raises(StoredFileError, match=r"Not a directory|cannot be written"):
            write(path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_command_says_where_the_page_is_and_tells_a_mistake_in_one_line(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("amci_explorer.static.folder.problem_facts", lambda name: {"title": ""})
    # A tour of ours, whose titles look like places of the page's parts, instead of the page's own.
    step = dataclasses.replace(STEPS[0], title="{{script}}", text="{{worker}} {{else}}")
    monkeypatch.setattr("amci_explorer.state.tour.tour", lambda: Tour("", (step,)))
    assert main([str(tmp_path / "new" / "page")]) == 0
    assert "index.html" in capsys.readouterr().out
    page = (tmp_path / "new" / "page" / "index.html").read_text("utf-8")
    assert "<summary>{{script}}</summary><p>{{worker}} {{else}}</p>" in page
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert str(tmp_path) in said.err


def test_text_is_escaped_and_formulas_are_not_lost():
    found = html_of("a < b & $x > \\theta$\n\nnext")
    assert found.startswith("<p>a &lt; b &amp; <")
    assert found.endswith("</p><p>next</p>")
    assert "$" not in found
    assert html_of("") == ""

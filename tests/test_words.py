"""What people read is in plain English and in the field's words.

Texts of the page, messages, docstrings, the documentation and the notebooks are searched for
phrases that readers from outside stumbled over.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# A phrase, and what to write instead.
PHRASES = {
    r"one's own": "your own",
    r"likewise": "the shape or the rule again",
    r"(?-i:As for) ": "the subject of the sentence",
    r"so long as|such as it is": "while, if",
    r"somebody|whoever|anybody": "who acts",
    r"nothing (?:but|else)|none of them|whatever": "what holds",
    r"\w+ lacks? them": "what is missing",
    r"that did not work|there is nothing here": "what happened, and what to do",
    r"bears? witness|in the know": "covers",
    r"ideal draws?|effective draws?": "effective sample size (ESS)",
    r"\d draws in all\b": "draws in total",
    r"draws that stand apart": "outliers",
    r"off by about": "relative error",
    r"found out|by itself finds": "automatic",
    r"stand-ins?": "fallback proposals",
    r"missed mass|mass that .{0,20} came near": "uncovered mass; what no draw reached",
    r"imitat\w+|scout\w*": "maximum likelihood on particles, initialization",
    r"normalis\w+|amortis\w+|factoris\w+": "-ize, as in PyTorch",
    r"what is (?:lost|kept|told|wanted)\b": "the noun",
    r"(?:is|are) told\b": "is reported, is given",
    r"nothing (?:more )?(?:is|has to be) said|else said": "with default settings",
    r"one (?:sees|looks|likes)\b": "you",
    r"is no expression here|expected what": "what is allowed",
    r"handed in\b": "added",
}


def said() -> Iterator[tuple[str, str]]:
    """Where a text is, and the text on one line."""
    for pattern in ("*.md", ".github/**/*.md", "docs/**/*.md", "*/README.md"):
        for path in sorted(ROOT.glob(pattern)):
            yield str(path.relative_to(ROOT)), " ".join(path.read_text("utf-8").split())
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
            yield f"{path.name}, cell {number}", " ".join("".join(cell["source"]).split())
    for path in sorted(ROOT.glob("app/amci_explorer/**/*.toml")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", line
    for folder in ("amci_core", "app"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and " " in str(node.value):
                    where = f"{path.relative_to(ROOT)}:{node.lineno}"
                    yield where, " ".join(str(node.value).split())


@pytest.fixture(scope="module")
def texts() -> list[tuple[str, str]]:
    found = list(said())
    assert len(found) > 1000
    return found


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_text_has_a_phrase_that_readers_stumbled_over(texts, phrase):
    pattern = re.compile(rf"\b(?:{phrase})", re.IGNORECASE)
    found = [
        f"{where}: {text[max(hit.start() - 40, 0) : hit.end() + 40]}"
        for where, text in texts
        for hit in pattern.finditer(text)
    ]
    assert not found, "\n".join([f"Write instead: {PHRASES[phrase]}", *found])

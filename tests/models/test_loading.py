"""A problem from a file, and what is wrong with the file in one sentence."""

import pickle
import re

import pytest
from own_problems import WRITTEN_OUT

import amci_core as amci
from amci_core.cli.problems import TEMPLATE

ONE = WRITTEN_OUT.format(kind="One", name="one")
MADE = TEMPLATE.format(name="made")
BASE = """
from amci_core.models import Problem


class Base(Problem):
    def __init__(self, dim):
        self.dim = dim
"""

RAISES = "\n    def __init__(self):\n        raise KeyError('a')\n"
TWO = "\nclass Two(One):\n    def __init__(self, dim):\n        pass\n"


def write(folder, text, name="mine.py"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_gives_its_problem_with_and_without_the_class(tmp_path):
    path = write(tmp_path, ONE + BASE)  # a class that lacks methods makes way
    for file in (path, str(path), f"{path}:One"):
        assert type(amci.load_problem(file)).__name__ == "One"


def test_a_file_may_import_its_neighbour_and_a_class_from_there_can_be_named(tmp_path):
    write(tmp_path, ONE, "neighbour_of_mine.py")
    path = write(tmp_path, "from neighbour_of_mine import One\n")
    assert amci.load_problem(f"{path}:One").name == "one"
    with pytest.raises(ValueError, match=r"expected one problem in .* defines none$"):
        amci.load_problem(path)


def test_a_problem_that_a_file_makes_is_found_by_its_name_or_alone(tmp_path):
    path = write(tmp_path, MADE)
    for file in (path, f"{path}:PROBLEM"):
        assert amci.load_problem(file).name == "made"
    # Another name of the same one is no other, nor is one from elsewhere beside a class.
    write(tmp_path, MADE + "\nAGAIN = PROBLEM\n")
    assert amci.load_problem(path).name == "made"
    write(tmp_path, ONE + "\nimport amci_core as amci\nTAIL = amci.problem('tail-1d')\n")
    assert amci.load_problem(path).name == "one"
    assert amci.load_problem(f"{path}:TAIL").name == "tail-1d"
    write(tmp_path, MADE + "\nTAIL = amci.problem('tail-1d')\n")
    with pytest.raises(ValueError, match=r"defines PROBLEM, TAIL. Name one, such as .*:PROBLEM$"):
        amci.load_problem(path)


@pytest.mark.parametrize("text", [ONE, MADE])
def test_what_a_file_defines_can_be_pickled(text, tmp_path):
    problem = amci.load_problem(write(tmp_path, text))
    assert pickle.loads(pickle.dumps(problem)).truth(1.0, 2.0) == problem.truth(1.0, 2.0)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (None, "", "problem: no such file: .*mine.py"),
        ("x = 1\ndef f(\n", "", r"problem: .*mine.py cannot be read: line 2: '\(' was never"),
        ("x = 1\n\ny = 1 / 0\n", "", "problem: .* raised ZeroDivisionError in mine.py, line 3"),
        ("raise SystemExit(3)\n", "", "problem: .* raised SystemExit in mine.py, line 1: 3"),
        ("x = 1\n", "", "problem: expected one problem in .* defines none"),
        (BASE, "", r"problem: Base\(\) in .* abstract class Base with .*f, .*log_prior"),
        (ONE, ":Tow", r"problem: .* no problem called 'Tow'; it defines One"),
        (ONE + RAISES, "", r"problem: One\(\) in .* raised KeyError in mine.py, line \d+: 'a'"),
        (ONE + TWO, "", "problem: .* defines One, Two. Name one, such as"),
        (ONE + TWO, ":Two", r"problem: Two\(\) in .* missing 1 .*'dim'$"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_a_line(text, name, message, tmp_path):
    path = tmp_path / "mine.py" if text is None else write(tmp_path, text)
    with pytest.raises(ValueError, match=f"^{message}") as raised:
        amci.load_problem(f"{path}{name}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("odd", ["tail-1d", "mine.txt", "mine.py:a b"])
def test_what_names_no_file_is_refused(odd):
    expected = f"problem: expected FILE.py or FILE.py:NAME, got {odd!r}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        amci.load_problem(odd)

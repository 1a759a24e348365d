"""Formulas become MathML, whatever their authors wrote."""

from xml.etree import ElementTree

import pytest
from amci_explorer.views.formula import formula

import amci_core as amci


def parts(latex):
    """The formula, the names of its elements and of their attributes."""
    root = ElementTree.fromstring(formula(latex))
    tags = [node.tag.rpartition("}")[2] for node in root.iter()]
    return root, tags, {name for node in root.iter() for name in node.attrib}


@pytest.mark.parametrize("name", amci.problems())
def test_every_problem_has_a_formula_without_anything_left_in_latex(name):
    root, tags, _ = parts(amci.problem(name).formula)
    assert "math" in tags
    assert "code" not in tags
    assert "\\" not in "".join(root.itertext())


def test_a_long_one_can_go_on_in_another_line():
    _, tags, _ = parts(r"a = \frac{1}{2}, \quad b = 3")
    assert tags.count("math") == 2


@pytest.mark.parametrize(
    "wrong", [r"\frac{", "x_", "{", r"\left(", r"\begin{matrix}", "", r"<img src=x>&"]
)
def test_what_cannot_be_read_is_shown_as_it_is(wrong):
    root, tags, _ = parts(wrong)
    assert "img" not in tags
    assert "".join(root.itertext()).replace(" ", "") == wrong.replace(" ", "")


@pytest.mark.parametrize(
    "attack", [r"\text{<img src=x onerror=alert(1)>}", r"\text{&lt;script&gt;}"]
)
def test_nothing_but_mathematics_comes_with_it(attack):
    _, tags, attributes = parts(attack)
    assert not {"img", "script", "a"} & set(tags)
    assert not {"href", "style", "onerror"} & attributes

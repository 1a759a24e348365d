r"""How many observations are as extreme as one: held to what the prior predictive says."""

import math

import numpy as np
import pytest
from amci_explorer.numbers.typical import DRAWS, as_extreme
from amci_explorer.words.headline import how_extreme
from scipy.stats import chi2, norm

import amci_core as amci


@pytest.mark.parametrize("y", [0.0, 1.0, -2.0, 3.0])
def test_on_the_line_it_is_the_share_of_the_tails(y):
    # y ~ N(0, 2), symmetric: both tails.
    expected = 2 * norm.sf(abs(y) / math.sqrt(2))
    found = as_extreme(amci.problem("tail-1d"), [y]) / DRAWS
    assert found == pytest.approx(expected, abs=5 * math.sqrt(expected / DRAWS) + 0.02)


def test_in_five_dimensions_it_is_that_of_the_distance():
    y = [1.5, -2.0, 0.5, 1.0, -1.0]
    expected = chi2.sf(np.square(y).sum() / 2, 5)
    found = as_extreme(amci.problem("tail-5d"), y) / DRAWS
    assert found == pytest.approx(expected, abs=0.02)


def test_a_sentence_says_it():
    problem = amci.problem("tail-1d")
    # 2 Phi(-3.2 / sqrt 2) = 0.0237.
    assert how_extreme(problem, [3.2]).startswith("About 1 in 4")
    assert how_extreme(problem, [0.0]).startswith("About 100 in 100")
    assert how_extreme(problem, [-8.0]).startswith("None of 50,000")
    assert how_extreme(amci.problem("peak"), []) == ""

r"""How many observations lie as far out as one: held to what the prior predictive says."""

import math

import numpy as np
import pytest
from amci_explorer.numbers.typical import DRAWS, typical
from scipy.stats import chi2, norm

import amci_core as amci


@pytest.mark.parametrize("y", [0.0, 1.0, -2.0, 3.0])
def test_on_the_line_it_is_the_share_of_the_tails(y):
    # y ~ N(0, 2), symmetric: both tails.
    expected = 2 * norm.sf(abs(y) / math.sqrt(2))
    found = typical(amci.problem("tail-1d"), [y])
    assert found == pytest.approx(expected, abs=5 * math.sqrt(expected / DRAWS) + 0.02)


def test_in_five_dimensions_it_is_that_of_the_distance():
    y = [1.5, -2.0, 0.5, 1.0, -1.0]
    expected = chi2.sf(np.square(y).sum() / 2, 5)
    assert typical(amci.problem("tail-5d"), y) == pytest.approx(expected, abs=0.02)


def test_beyond_all_draws_there_is_none_and_without_an_observation_nothing_is_said():
    assert typical(amci.problem("tail-1d"), [-8.0]) == 0
    assert math.isnan(typical(amci.problem("peak"), []))

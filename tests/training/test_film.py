r"""Moments of a training's film: even along the divergence, first and last among them."""

import math
from itertools import pairwise

import pytest

from amci_core.training.film import candidates, chosen, is_news


def film_of(*divergences):
    return [{"step": i, "divergence": d} for i, d in enumerate(divergences)]


def test_early_moments_are_looked_at_evenly_on_a_log_scale():
    found = sorted(candidates(30_000))
    assert found[0] == 1
    assert found[-1] == 300
    assert len(found) > 15
    steps = [math.log(b / a) for a, b in pairwise(found[8:])]
    assert max(steps) < 1.5 * min(steps)


def test_a_frame_is_news_when_the_divergence_has_fallen():
    assert is_news([], math.inf)
    assert is_news(film_of(1.0), 0.5)
    assert not is_news(film_of(1.0), 0.9)
    assert not is_news(film_of(1.0), 2.0)


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_frames_lie_evenly_along_the_divergence_whenever_they_came(count):
    # Nothing for a while, then most of the fall within few frames.
    film = film_of(*[2.0 ** (-k / 8) for k in range(8)], *[2.0**-k for k in range(1, 30)])
    logs = [math.log(frame["divergence"]) for frame in chosen(film, count)]
    gaps = [a - b for a, b in pairwise(logs)]
    assert len(logs) == count
    assert logs[0] == 0
    assert logs[-1] == -29 * math.log(2)
    even = logs[-1] / (1 - count)
    # No frame is farther from where it should be than half the widest gap of the film.
    assert max(abs(gap - even) for gap in gaps) <= math.log(2) + 1e-9


def test_a_short_film_is_kept_whole_and_an_exact_proposal_is_no_trouble():
    film = film_of(1.0, 0.1, 0.0)
    assert chosen(film, 8) == film
    assert chosen(film_of(1.0, 0.5, 0.1, 0.0), 3)[-1]["divergence"] == 0.0

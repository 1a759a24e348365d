"""The strangers' problems are what their truths were made for."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from strangers import STRANGERS, truths

# NumPy's density of the epidemic takes half the steps' length; torch keeps 0.3 in float32.
TOLERANCE = {"epidemic": 2e-3}


@pytest.mark.parametrize("name", STRANGERS)
def test_the_density_in_numpy_is_the_models(name):
    stranger, y = STRANGERS[name], truths(name)[0]
    problem = stranger.problem()
    x = problem.sample_prior(4, torch.Generator().manual_seed(1)).double()
    log_p = problem.log_prior(x)
    if y is not None:
        log_p = log_p + problem.log_likelihood(x, torch.tensor(y[0]))
    expected = [stranger.log_joint(None if y is None else y[0], *point) for point in x.numpy()]
    np.testing.assert_allclose(log_p, expected, rtol=TOLERANCE.get(name, 1e-7))

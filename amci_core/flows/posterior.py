r"""Weighted draws of the posterior p(x | y) from q2, and ArviZ's view of weighted draws.

ArviZ has no weights: what it plots and summarizes are draws of equal weight. So its posterior
holds resampled draws. Copies of a draw stand beside each other, and ArviZ's effective sample size
and Monte Carlo error count them as it counts the correlation of a chain: with weights w of sum one
its error of a mean comes close to the weighted mean's, (sum of w^2 (f - mu)^2)^(1/2).
"""

from __future__ import annotations

__all__ = ["PosteriorDraws", "inference_data", "resampled_rows"]

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from amci_core.estimators.draws import Array
from amci_core.models import Problem


@dataclass(frozen=True, repr=False)
class PosteriorDraws:
    """Draws of q2 with weights, which follow p(x | y) together; see `Proposals.sample`.

    Arguments:
        problem: The problem.
        x: The draws, (n, D).
        log_weights: log p(x, y) - log q2(x) in nats, (n,); the log of the mean of their
            exponentials estimates the log evidence.

    Example:
        >>> import amci_core as amci
        >>> draws = amci.load_proposals("tail-1d").sample(1.0, 1000)
        >>> draws
        1,000 posterior draws for tail-1d, ESS 1,000
        >>> bool(abs(draws.weights @ draws.x[:, 0] - 0.5) < 0.1)  # p(x | y) = N(y / 2, 1 / 2)
        True
    """

    problem: Problem
    x: Array
    log_weights: Array

    @property
    def weights(self) -> Array:
        """The weights, normalized to a sum of one, (n,)."""
        return np.asarray(softmax(self.log_weights))

    @property
    def ess(self) -> float:
        """Effective sample size: so many draws of p(x | y) itself are worth as much."""
        return float(1 / np.square(self.weights).sum())

    def resampled(self) -> Array:
        """n draws of equal weight, (n, D), copies of those with larger ones among them."""
        return self.x[resampled_rows(self.log_weights)]

    def to_arviz(self) -> Any:
        """ArviZ's InferenceData, whose `posterior` holds the resampled draws in one chain.

        Its variables are those of `problem.named_draws`. Another group, `weighted_posterior`, has
        all draws with their `log_weight` in nats.

        Raises:
            ImportError: neither arviz-base nor arviz is installed.
        """
        named = self.problem.named_draws
        weighted = {**named(self.x), "log_weight": self.log_weights}
        return inference_data(posterior=named(self.resampled()), weighted_posterior=weighted)

    def __repr__(self) -> str:
        drawn = f"{len(self.x):,} posterior draws for {self.problem.name}"
        return f"{drawn}, ESS {self.ess:,.0f}"


def inference_data(**groups: Mapping[str, Array]) -> Any:
    """The groups, each of arrays (n, ...) by name, as one chain of n draws.

    A `DataTree` of xarray, or with ArviZ 0.x alone its InferenceData.

    Raises:
        ImportError: neither arviz-base nor arviz is installed.
    """
    chains = {g: {name: v[None] for name, v in arrays.items()} for g, arrays in groups.items()}
    try:
        from arviz_base import from_dict
    except ImportError:
        try:
            from arviz import InferenceData, dict_to_dataset
        except ImportError:
            raise ImportError("to_arviz: needs ArviZ. Run: pip install arviz-base") from None
        return InferenceData(
            **{group: dict_to_dataset(arrays) for group, arrays in chains.items()}
        )
    return from_dict(chains)


def resampled_rows(log_weights: Array) -> NDArray[np.int64]:
    """n rows of n weighted draws, in their order, by systematic resampling from the middle.

    Example:
        >>> resampled_rows(np.log([0.5, 0.25, 0.15, 0.1])).tolist()
        [0, 0, 1, 2]
    """
    n = len(log_weights)
    edges = softmax(log_weights).cumsum()
    return np.searchsorted(edges[:-1] / edges[-1], (np.arange(n) + 0.5) / n)

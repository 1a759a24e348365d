"""A model with six points, in which every integral is a sum that can be written out."""

from dataclasses import dataclass

import numpy as np

from amci_core.estimation.result import Estimate
from amci_core.estimators.base import Prepared
from amci_core.estimators.draws import Draws
from amci_core.estimators.mis import Moments


@dataclass(frozen=True)
class Discrete:
    """p(x, y), f and the three proposals as tables over the points; f takes both signs.

    The defensive density is uniform.
    """

    joint: np.ndarray
    f: np.ndarray
    q: np.ndarray

    @property
    def factors(self) -> np.ndarray:
        """(f_plus, f_minus, 1) at every point, (3, K)."""
        return np.stack([self.f.clip(min=0), (-self.f).clip(min=0), np.ones_like(self.f)])

    @property
    def terms(self) -> np.ndarray:
        """E1_plus, E1_minus, E2."""
        return self.factors @ self.joint

    @property
    def mu(self) -> float:
        return float(self.joint @ self.f / self.joint.sum())

    def covariance(self, j: int) -> np.ndarray:
        """Cov_{q_j}[(f_plus w, f_minus w, w)] of one draw."""
        values = self.factors * self.joint / self.q[j]
        centred = values - (values @ self.q[j])[:, None]
        return (centred * self.q[j]) @ centred.T

    def moments(self, counts: tuple[float, float, float]) -> Moments:
        """The exact moments, for these numbers of draws."""
        covariance = np.stack([self.covariance(j) for j in range(3)])
        return moments_of(self.terms, covariance, np.array(counts, dtype=float))

    @property
    def size(self) -> float:
        """(E1_plus + E1_minus) / E2."""
        return float(self.terms[:2].sum() / self.terms[2])

    @property
    def densities(self) -> np.ndarray:
        """The proposals and the defensive density, (4, K)."""
        return np.vstack([self.q, np.full(len(self.f), 1 / len(self.f))])

    def draws(self, counts: tuple[int, ...], *, runs: int, seed: int) -> Draws:
        """counts[j] points of every component j, in `runs` independent runs."""
        rng = np.random.default_rng(seed)
        drawn = {j: n for j, n in enumerate(counts) if n}
        q = self.densities
        x = np.concatenate(
            [rng.choice(len(self.f), size=(runs, n), p=q[j]) for j, n in drawn.items()], -1
        )
        return self.at(x, drawn)

    def at(self, x: np.ndarray, counts: dict[int, int]) -> Draws:
        """These points (*, n), of which the components gave as many each."""
        with np.errstate(divide="ignore"):
            log_q = np.log(self.densities)
        return Draws(
            f=self.f[x],
            log_joint=np.log(self.joint)[x],
            log_q={j: log_q[j][x] for j in range(4)},
            counts=counts,
            signed=True,
        )


def row(*parts: dict, signed: bool = False) -> Draws:
    """Points of one pair, component after component, from their numbers.

    Each part has `j`, the component; `f` and `log_joint`, (*, n); and `log_q`, of every component
    that is known there.
    """
    known = sorted(set.intersection(*({*part["log_q"]} for part in parts)))
    join = lambda key: np.concatenate([np.asarray(part[key], float) for part in parts], -1)  # noqa: E731
    return Draws(
        f=join("f"),
        log_joint=join("log_joint"),
        log_q={
            k: np.concatenate([np.asarray(part["log_q"][k], float) for part in parts], -1)
            for k in known
        },
        counts={part["j"]: np.shape(part["f"])[-1] for part in parts},
        signed=signed,
    )


def prepared(table: np.ndarray, draws: Draws) -> Prepared:
    """A table with all of these draws."""
    return Prepared(np.asarray(table), draws)


def judged(ready: Prepared, *, positive: bool = False) -> Estimate:
    """The estimate from all of its draws, with its error."""
    return Estimate(ready, positive=positive)


def moments_of(terms: np.ndarray, covariance: np.ndarray, counts: np.ndarray) -> Moments:
    """Moments from terms, (3,), and the covariances of one draw, (3, 3, 3), in their units."""
    terms = np.asarray(terms, dtype=float)
    unit = np.where(terms > 0, terms, 1.0)
    with np.errstate(divide="ignore"):
        return Moments(np.log(terms), covariance / (unit[:, None] * unit), np.asarray(counts))


def signed() -> Discrete:
    return Discrete(
        joint=np.array([0.03, 0.11, 0.2, 0.16, 0.07, 0.01]),
        f=np.array([-3.0, -0.5, 0.0, 0.4, 1.5, 6.0]),
        q=np.array(
            [
                [0.02, 0.03, 0.05, 0.2, 0.4, 0.3],
                [0.5, 0.3, 0.1, 0.05, 0.03, 0.02],
                [0.1, 0.2, 0.25, 0.25, 0.15, 0.05],
            ]
        ),
    )

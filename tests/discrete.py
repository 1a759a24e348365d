"""A model with six points, in which every integral is a sum that can be written out."""

from dataclasses import dataclass

import numpy as np

from amci_core.estimators import Draws, Points


@dataclass(frozen=True)
class Discrete:
    """p(x, y), f and the three proposals as tables over the points; f takes both signs."""

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

    def draws(self, counts: tuple[int, int, int], *, runs: int, seed: int) -> Draws:
        """counts[j] points of every proposal j, in `runs` independent runs."""
        rng = np.random.default_rng(seed)
        points: list[Points | None] = []
        for j, n in enumerate(counts):
            if n == 0:
                points.append(None)
                continue
            x = rng.choice(len(self.f), size=(runs, n), p=self.q[j])
            log_q = np.log(self.q)
            points.append(
                Points(
                    f_plus=self.factors[0][x],
                    f_minus=self.factors[1][x],
                    log_joint=np.log(self.joint)[x],
                    log_q=(log_q[0][x], log_q[1][x], log_q[2][x]),
                )
            )
        return Draws((points[0], points[1], points[2]))


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

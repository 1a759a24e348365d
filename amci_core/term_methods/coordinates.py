r"""Coordinates without bounds for the support of an integrand."""

from __future__ import annotations

__all__ = ["Coordinates"]

from torch import Tensor
from torch.distributions import biject_to
from torch.distributions.constraints import Constraint


class Coordinates:
    """Carries coordinates z in R^D to points x of a support, by PyTorch's own bijection.

    A half-line x > c is c + exp(z), an interval a scaled sigmoid, the real line itself.

    Arguments:
        support: The set of x.

    Raises:
        ValueError: no bijection is registered for a set of this kind.
    """

    def __init__(self, support: Constraint) -> None:
        try:
            self._transform = biject_to(support)
        except NotImplementedError:
            raise ValueError(
                f"support: expected one that torch.distributions.biject_to knows, got {support}"
            ) from None

    def points(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """x (n, D) for z (n, D), and log|det dx / dz|, (n)."""
        x = self._transform(z)
        log_det = self._transform.log_abs_det_jacobian(z, x)
        return x, log_det.sum(-1) if log_det.ndim == z.ndim else log_det

    def inverse(self, x: Tensor) -> Tensor:
        """z (n, D) for x (n, D); not finite outside the support."""
        found: Tensor = self._transform.inv(x)
        return found

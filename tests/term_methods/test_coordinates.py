"""Coordinates without bounds: the inverse, and the determinant against autograd's."""

import pytest
import torch
from torch.distributions import constraints

from amci_core.term_methods.coordinates import Coordinates

SUPPORTS = {
    "line": constraints.real,
    "above": constraints.greater_than(torch.tensor([3.0, -1.0], dtype=torch.float64)),
    "below": constraints.less_than(2.0),
    "square": constraints.unit_interval,
    "half-strip": constraints.stack([constraints.positive, constraints.unit_interval], dim=-1),
}


@pytest.mark.parametrize("support", SUPPORTS.values(), ids=SUPPORTS)
def test_points_lie_in_the_support_with_their_determinant(support):
    coordinates = Coordinates(support)
    z = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x, log_det = coordinates.points(z)
    assert support.check(x).all()
    torch.testing.assert_close(coordinates.inverse(x), z)
    for i in range(len(z)):
        jacobian = torch.autograd.functional.jacobian(
            lambda row: coordinates.points(row[None])[0][0], z[i]
        )
        torch.testing.assert_close(log_det[i], jacobian.det().abs().log())


def test_a_support_without_a_bijection_is_refused():
    with pytest.raises(ValueError, match=r"support: expected one that .*biject_to knows"):
        Coordinates(constraints.integer_interval(0, 3))

"""A problem's own picture is one function."""

from amci_explorer.numbers.pictures import Picture, densities, picture_of
from amci_explorer.numbers.plane import plane_densities

import amci_core as amci
from amci_core.models.peak import ProductPeak


def test_a_picture_of_your_own_is_one_function():
    class Calm(ProductPeak):
        name = "calm"

    def calm_densities(*case):
        return plane_densities(*case)

    @picture_of.register
    def _(_: Calm) -> Picture:
        return Picture(calm_densities, "peak")

    problem = Calm()
    assert picture_of(problem).numbers is calm_densities
    proposals = amci.load_proposals(problem, variant="oracle")
    assert densities(problem, proposals, None, (0.3, 0.7, 0.4)).divergence < 1e-6

r"""Has moved to `amci_explorer.compute.computations`."""

from amci_explorer.compute.computations import (
    BUDGETS,
    MAP_SIZES,
    REUSE_GRID,
)  # fmt: skip
from amci_explorer.compute.computations import (
    Computations as Computations,
)
from amci_explorer.compute.computations import (
    computations_of as computations_of,
)

__all__ = ["BUDGETS", "MAP_SIZES", "REUSE_GRID", "Computations", "computations_of"]

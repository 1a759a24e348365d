r"""Has moved to `amci_explorer.compute.computations`."""

from amci_explorer.compute.computations import (
    BUDGETS,
    MAP_SIZES,
    REUSE_GRID,
)  # fmt: skip
from amci_explorer.compute.computations import (
    Computations as Store,
)
from amci_explorer.compute.computations import (
    computations_of as store_of,
)

__all__ = ["BUDGETS", "MAP_SIZES", "REUSE_GRID", "Store", "store_of"]

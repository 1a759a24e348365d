r"""Has moved to `amci_explorer.compute.computations`."""

from amci_explorer.compute.computations import (
    BUDGETS, MAP_SIZES, REUSE_GRID, Computations as Store, computations_of as store_of,
)  # fmt: skip

__all__ = ["BUDGETS", "MAP_SIZES", "REUSE_GRID", "Store", "store_of"]

"""The dashboard: what the user chose, what follows from it, and the pictures of it.

In a notebook, `from amci_explorer import Explorer; Explorer()` shows it in a cell.
"""

from typing import Any

__all__ = ["Explorer"]


def __getattr__(name: str) -> Any:
    # Only a notebook needs IPython.
    if name == "Explorer":
        from amci_explorer.cell import Explorer

        return Explorer
    raise AttributeError(name)

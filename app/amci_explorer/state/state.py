r"""The page's case under its earlier name."""

from amci_explorer.state.case import OPENING_PROBLEM, Case
from amci_explorer.state.links import decoded

__all__ = ["OPENING_PROBLEM", "State", "decoded"]

State = Case

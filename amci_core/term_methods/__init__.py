r"""Reference values of mu, each term integrated on its own without any proposal."""

from __future__ import annotations

__all__ = ["ReferenceValue", "reference_value"]

from amci_core.term_methods.reference import ReferenceValue, reference_value

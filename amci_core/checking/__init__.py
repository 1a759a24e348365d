r"""A problem of one's own: whether its definition holds together, before it costs time."""

from __future__ import annotations

__all__ = ["Checked", "Finding", "check"]

from amci_core.checking.check import check
from amci_core.checking.findings import Checked, Finding

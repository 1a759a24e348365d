r"""What Back and Forward lead through: where a visitor has been, as links."""

from __future__ import annotations

__all__ = ["Steps"]

# So many are kept.
MOST = 100


class Steps:
    """Creates an empty list of steps."""

    def __init__(self) -> None:
        self._links: list[dict[str, str]] = []
        self._at = -1

    def add(self, link: dict[str, str]) -> None:
        """Takes a step, unless it leads nowhere else; what was ahead is forgotten."""
        if self._at < 0 or link != self._links[self._at]:
            self._links = [*self._links[: self._at + 1], link][-MOST:]
            self._at = len(self._links) - 1

    @property
    def can_go(self) -> tuple[bool, bool]:
        """Whether there is something behind, and ahead."""
        return self._at > 0, self._at < len(self._links) - 1

    def go(self, step: int) -> dict[str, str] | None:
        """Goes back (-1) or forward (1), and gives what is there; None where nothing is."""
        if not 0 <= self._at + step < len(self._links):
            return None
        self._at += step
        return self._links[self._at]

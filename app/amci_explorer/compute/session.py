r"""Has moved to `amci_explorer.server.session`."""

from amci_explorer.server.session import (
    TURNS,
    building,
    callback,
    guarded,
    on_failure,
    on_news,
    one_message,
    say,
    weakly,
)  # fmt: skip

__all__ = [
    "TURNS", "building", "callback", "guarded", "on_failure", "on_news", "one_message",
    "say", "weakly",
]  # fmt: skip

r"""What the log holds: lines that end, and not too many."""

from __future__ import annotations

__all__ = ["Short"]

import logging
import traceback
from collections import deque
from pathlib import Path
from typing import Any

# Characters of a message, and of what is said of an error.
LONGEST_RECORD = 250
# Records that one place in the code makes within so many seconds.
MOST_RECORDS, SECONDS = 20, 60.0
# When each place in the code made its last records.
_MADE: dict[tuple[str, int], deque[float]] = {}


class Short(logging.LogRecord):
    """A record in one line: what happened, and of an error where, the innermost call first."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.error, self.exc_info, self.stack_info = (self.exc_info or (None,) * 3)[1], None, None
        made = _MADE.setdefault((self.pathname, self.lineno), deque(maxlen=MOST_RECORDS))
        if len(made) == MOST_RECORDS and self.created - made[0] < SECONDS:
            # Below the level of every handler: all of them refuse it.
            self.levelno = -1
        else:
            made.append(self.created)

    def getMessage(self) -> str:
        """The line."""
        message = _cut(super().getMessage())
        if self.error is None:
            return message
        calls = reversed(traceback.extract_tb(self.error.__traceback__))
        places = ", ".join(f"{Path(each.filename).name}:{each.lineno}" for each in calls)
        said = str(self.error)[:100]
        return f"{message}: {_cut(f'{type(self.error).__name__}: {said} ({places})')}"


def _cut(text: str) -> str:
    return " ".join(text[:LONGEST_RECORD].split())

r"""What the log holds: lines that end, and not too many, whatever a visitor sends."""

from __future__ import annotations

__all__ = ["LONGEST_RECORD", "MOST_RECORDS", "Short", "shorten_records"]

import logging
import traceback
from collections import deque
from pathlib import Path
from typing import Any

# Characters of a record beside its time, level and name.
LONGEST_RECORD = 500
# Records that one place in the code makes within so many seconds.
MOST_RECORDS, SECONDS = 20, 60.0
# Below the level of every handler: all of them refuse such a record.
REFUSED = -1
# When each place in the code made its last records.
_MADE: dict[tuple[str, int], deque[float]] = {}


class Short(logging.LogRecord):
    """A record in one line: what happened, and of an error where, the innermost call first."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        made = _MADE.setdefault((self.pathname, self.lineno), deque(maxlen=MOST_RECORDS))
        full = len(made) == MOST_RECORDS and self.created - made[0] < SECONDS
        try:
            message = "" if full else self.getMessage()
        except Exception:  # what a visitor sent cannot be written: the log goes on
            message = str(self.msg)
        error = self.exc_info[1] if self.exc_info else None
        if full:
            self.levelno = REFUSED
        else:
            made.append(self.created)
            message = _cut(message, LONGEST_RECORD // 2)
            if isinstance(error, BaseException):
                message += f": {_cut(_told(error), LONGEST_RECORD // 2)}"
        self.msg, self.args, self.exc_info, self.stack_info = message, (), None, None


def _told(error: BaseException) -> str:
    calls = reversed(traceback.extract_tb(error.__traceback__))
    places = ", ".join(f"{Path(each.filename).name}:{each.lineno}" for each in calls)
    return f"{type(error).__name__}: {_cut(str(error), 100)} ({places})"


def _cut(text: str, most: int) -> str:
    """A text in one line, its beginning where it is long."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def shorten_records() -> None:
    """Has every logger of the process make short records, warnings among them."""
    logging.setLogRecordFactory(Short)
    logging.captureWarnings(True)

r"""What the log holds: lines that end, and not too many, whatever a visitor sends.

Every logger of the process makes records of `Short`: handlers and formats stay as Bokeh, Panel,
param and Tornado set them.
"""

from __future__ import annotations

__all__ = ["LONGEST_RECORD", "MOST_RECORDS", "Places", "Short", "shorten_records"]

import logging
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

# Characters of a record beside its time, level and name.
LONGEST_RECORD = 500
# Of them, where an error is told, its message and where it was raised have the rest.
LONGEST_MESSAGE = 150
# Records that one place in the code makes within so many seconds.
MOST_RECORDS, SECONDS = 20, 60.0
# Below the level of every handler: all of them refuse such a record, whatever made it.
REFUSED = -1


def _cut(text: str, most: int) -> str:
    """A text in one line, its beginning where it is long."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


class Places:
    """How many records each place in the code has made.

    Arguments:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # When its minute began, and its records since then.
        self._made: dict[tuple[str, int], tuple[float, int]] = {}

    def count(self, pathname: str, lineno: int) -> int | None:
        """Counts a record: how many before it were left out, None where it is left out itself."""
        place, now = (pathname, lineno), self._clock()
        began, made = self._made.get(place, (now, 0))
        if now < began + SECONDS:
            self._made[place] = began, made + 1
            return 0 if made < MOST_RECORDS else None
        self._made[place] = now, 1
        return max(0, made - MOST_RECORDS)


class Short(logging.LogRecord):
    """A record in two lines at most: what happened, and of an error its last calls."""

    places: ClassVar[Places] = Places()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        left_out = self.places.count(self.pathname, self.lineno)
        if left_out is None:
            # A factory has to make a record.
            self.levelno, self.msg, self.args = REFUSED, "", ()
            self.exc_info = self.stack_info = None
            return
        error = self.exc_info[1] if self.exc_info else None
        most = LONGEST_RECORD
        if isinstance(error, BaseException):
            most = LONGEST_MESSAGE
            self.exc_text = _cut(_told(error), LONGEST_RECORD - most)
        self.stack_info = None
        try:
            message = self.getMessage()
        except Exception:  # what a visitor sent cannot be written: the log goes on
            message = str(self.msg)
        more = f" ({left_out} more like this were left out)" if left_out else ""
        self.msg, self.args = _cut(message, most) + more, ()


def _told(error: BaseException) -> str:
    """An error and where it came from, the innermost call first."""
    calls = [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in reversed(traceback.extract_tb(error.__traceback__))
    ]
    return f"{type(error).__name__}: {_cut(str(error), LONGEST_MESSAGE)} ({', '.join(calls)})"


def shorten_records() -> None:
    """Has every logger of the process make short records, warnings among them."""
    logging.setLogRecordFactory(Short)
    logging.captureWarnings(True)

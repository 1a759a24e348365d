r"""What the log holds: lines that end, whatever a visitor sends.

Every logger of the process makes records of `Short`: handlers and formats stay as Bokeh, Panel,
param and Tornado set them.
"""

from __future__ import annotations

__all__ = ["LONGEST_RECORD", "Short", "shorten_records"]

import logging
import traceback
from pathlib import Path
from typing import Any

# Characters of a record beside its time, level and name.
LONGEST_RECORD = 500
# Of them, where an error is told, its message and where it was raised have the rest.
LONGEST_MESSAGE = 150


def _cut(text: str, most: int) -> str:
    """A text in one line, its beginning where it is long."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


class Short(logging.LogRecord):
    """A record in two lines at most: what happened, and of an error its last calls."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
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
        self.msg, self.args = _cut(message, most), ()


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

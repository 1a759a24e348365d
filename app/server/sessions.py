r"""Who may open what: only the server makes sessions, and only its own pages join them.

A page gets a token with its HTML, and shows it when its websocket connects. An id or token that
comes by an address or header is whoever's made the link: two visitors would share a page.
"""

from __future__ import annotations

__all__ = ["SESSIONS", "Sessions", "brings_session"]

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import Any

# What Bokeh would take an id or a token from.
ARGUMENTS, HEADER = {"bokeh-session-id", "bokeh-token"}, "Bokeh-Session-Id"
# A session with more errors than this in a minute is closed: no page makes so many.
MOST_ERRORS, SECONDS = 20, 60.0


def brings_session(arguments: Collection[str], headers: Mapping[str, Any]) -> bool:
    """Whether a request names the session that it wants."""
    return not ARGUMENTS.isdisjoint(arguments) or HEADER in headers


class Sessions:
    """The tokens that the server has given out, and the errors of each session.

    Arguments:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By a digest of the token: the session's id, and until when the token may be shown.
        self._given: dict[bytes, tuple[str, float]] = {}
        self._errors: dict[str, deque[float]] = {}

    def give(self, token: str, session: str, seconds: float) -> None:
        """Notes a token that a page is given."""
        now = self._clock()
        self._given = {key: each for key, each in self._given.items() if each[1] > now}
        self._given[_digest(token)] = session, now + seconds

    def knows(self, token: str) -> bool:
        """Whether the server gave out that token, and it still holds."""
        _, until = self._given.get(_digest(token), ("", 0.0))
        return until > self._clock()

    def errs(self, session: str) -> bool:
        """Notes an error of a session; whether these are too many.

        Its tokens hold no longer then.
        """
        now = self._clock()
        since = now - SECONDS
        self._errors = {key: each for key, each in self._errors.items() if each[-1] > since}
        errors = self._errors.setdefault(session, deque(maxlen=MOST_ERRORS + 1))
        errors.append(now)
        if len(errors) <= MOST_ERRORS or errors[0] <= since:
            return False
        self._given = {key: each for key, each in self._given.items() if each[0] != session}
        return True


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="replace")).digest()


SESSIONS = Sessions()

r"""What every answer tells a browser: what the page may load, run, and be shown in."""

from __future__ import annotations

__all__ = ["Headers", "policy"]

import os
import re
from secrets import token_urlsafe

from tornado.httputil import HTTPHeaders
from tornado.web import OutputTransform

# Who may show the page in a frame: `--frames` of `amci_explorer.server.serve`. Empty: everybody.
FRAMES = os.environ.get("AMCI_FRAMES", "")
INLINE = re.compile(rb"<script\b(?![^>]*\bsrc=)")


class Headers(OutputTransform):
    """Tells a browser what the page may do, with every answer.

    Bokeh's scripts make functions of text, and Panel's import modules of text (`unsafe-eval`,
    `blob:`); both set styles inline. Of inline scripts those of the answer itself may run, marked
    with a number that only this answer has.
    """

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Adds the headers."""
        nonce = ""
        if finishing and "html" in headers.get("Content-Type", ""):
            nonce = token_urlsafe(16)
            chunk = INLINE.sub(f"<script nonce={nonce}".encode(), chunk)
            headers["Content-Length"] = str(len(chunk))
        headers["Content-Security-Policy"] = policy(nonce)
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Referrer-Policy"] = "same-origin"
        return status_code, headers, chunk


def policy(nonce: str = "", frames: str = FRAMES) -> str:
    """The content security policy of an answer.

    Arguments:
        nonce: The mark of inline scripts that may run; empty: none may.
        frames: Who may show it in a frame, with spaces between; empty for everybody.
    """
    rules = {
        "default-src": "'none'",
        "script-src": "'self' blob: 'unsafe-eval'" + (f" 'nonce-{nonce}'" if nonce else ""),
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self' blob:",
        "manifest-src": "'self'",
        "base-uri": "'self'",
        "form-action": "'self'",
    }
    if frames:
        rules["frame-ancestors"] = f"'self' {frames}"
    return "; ".join(f"{name} {value}" for name, value in rules.items())

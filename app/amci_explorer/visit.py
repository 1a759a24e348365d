r"""What happens at a visit: the page is made."""

from __future__ import annotations

__all__ = ["open_page"]

import logging
import sys

import panel as pn

import amci_explorer.server.guard  # noqa: F401  it begins when it is imported
from amci_explorer.explorer import Explorer
from amci_explorer.problems import registry
from amci_explorer.server import compat
from amci_explorer.server.session import callback, weakly
from amci_explorer.shell import page
from amci_explorer.state.links import decoded
from amci_explorer.views.style import VARIABLES

log = logging.getLogger(__name__)
FAILED = "The page could not be made. The server's log says why."
compat.hide_working_directory()


def open_page() -> None:
    """Makes the page of the visit that runs the script that calls this."""
    pn.extension(global_css=[VARIABLES])
    document = pn.state.curdoc
    try:
        registry.serve_files(sys.argv[1:])
        explorer = Explorer(document, decoded(pn.state.session_args))
        pn.config.exception_handler = weakly(explorer.report)
        pn.state.on_session_destroyed(weakly(explorer.close))
        explorer.start()
        if not explorer.small:
            pn.state.onload(callback(explorer.tabs.fill))
        page(explorer, document).servable(title="AMCI Explorer")
    except Exception:
        # Panel would show where in the server it failed.
        log.exception("the page could not be made")
        pn.pane.Str(FAILED).servable()

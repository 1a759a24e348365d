r"""What happens at a visit: the page is made, or refused."""

__all__ = ["open_page"]

import asyncio
import logging
import sys
from functools import partial

import panel as pn

from amci_explorer.compute.session import building, callback, weakly
from amci_explorer.explorer import Explorer
from amci_explorer.problems.registry import serve_files
from amci_explorer.server.guard import admit, count_error
from amci_explorer.server.ready import get_ready
from amci_explorer.state.state import decoded
from amci_explorer.views.shell import page
from amci_explorer.views.style import VARIABLES

# Other problems are made ready once the first visitor has been answered.
SECONDS_AT_REST = 10
REFUSED = "The server alone names sessions. Open the page itself."
FAILED = "The page could not be made. The server's log says why."


def show() -> None:
    """Makes the page of the visit that runs this script."""
    document = pn.state.curdoc
    serve_files(sys.argv[1:])
    with building(document):
        query = decoded(pn.state.session_args)
        explorer = Explorer(document, query, partial(count_error, document))
    pn.config.exception_handler = weakly(explorer.report)
    pn.state.onload(callback(explorer.start))
    asyncio.get_running_loop().call_later(SECONDS_AT_REST, get_ready)
    pn.state.on_session_destroyed(weakly(explorer.close))
    page(explorer, document).servable(title="AMCI Explorer")


def open_page() -> None:
    """Answers the visit that runs the script that calls this."""
    pn.extension(raw_css=[VARIABLES])
    if not admit(pn.state.curdoc):
        pn.pane.Str(REFUSED).servable()
        return
    try:
        show()
    except Exception:
        # Panel would show where in the server it failed.
        logging.getLogger(__name__).exception("the page could not be made")
        pn.pane.Str(FAILED).servable()

r"""The dashboard: `panel serve app/dashboard.py`, or `make serve`.

With problems of one's own: `panel serve app/dashboard.py --args my_problem.py`.
"""

import asyncio
import logging
import sys
from functools import partial

import panel as pn

from app.explorer import Explorer
from app.from_files import serve_files
from app.link import decoded
from app.ready import get_ready
from app.server.guard import admit, count_error
from app.session import answer, building, weakly
from app.shell import page
from app.style import VARIABLES

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
    pn.state.onload(answer(explorer.start))
    asyncio.get_running_loop().call_later(SECONDS_AT_REST, get_ready)
    pn.state.on_session_destroyed(weakly(explorer.close))
    page(explorer, document).servable(title="AMCI Explorer")


pn.extension(raw_css=[VARIABLES])
if admit(pn.state.curdoc):
    try:
        show()
    except Exception:
        # Panel would show where in the server it failed.
        logging.getLogger(__name__).exception("the page could not be made")
        pn.pane.Str(FAILED).servable()
else:
    pn.pane.Str(REFUSED).servable()

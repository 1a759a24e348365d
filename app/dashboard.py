r"""The dashboard: `panel serve app/dashboard.py`, or `make serve`.

With problems of one's own: `panel serve app/dashboard.py --args my_problem.py`.
"""

import asyncio
import sys

import panel as pn

from app.explorer import Explorer
from app.from_files import serve_files
from app.guard import decoded
from app.ready import get_ready
from app.session import answer, building, weakly
from app.shell import page
from app.style import VARIABLES

# Other problems are made ready once the first visitor has been answered.
SECONDS_AT_REST = 10

pn.extension(raw_css=[VARIABLES])

serve_files(sys.argv[1:])
with building(pn.state.curdoc):
    explorer = Explorer(pn.state.curdoc, decoded(pn.state.session_args))
pn.config.exception_handler = weakly(explorer.report)
pn.state.onload(answer(explorer.start))
asyncio.get_running_loop().call_later(SECONDS_AT_REST, get_ready)
pn.state.on_session_destroyed(weakly(explorer.close))
page(explorer, pn.state.curdoc).servable(title="AMCI Explorer")

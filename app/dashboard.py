r"""The dashboard: `panel serve app/dashboard.py`, or `make serve`."""

import asyncio

import panel as pn

from app.explorer import Explorer
from app.guard import decoded
from app.ready import get_ready
from app.session import answer, weakly
from app.shell import page

# Other problems are made ready once the first visitor has been answered.
SECONDS_AT_REST = 10

pn.extension("mathjax")

explorer = Explorer(pn.state.curdoc, decoded(pn.state.session_args))
pn.config.exception_handler = weakly(explorer.report)
pn.state.onload(answer(explorer.start))
asyncio.get_running_loop().call_later(SECONDS_AT_REST, get_ready)
pn.state.on_session_destroyed(weakly(explorer.close))
page(explorer, pn.state.curdoc).servable(title="AMCI Explorer")

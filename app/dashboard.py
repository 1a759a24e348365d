r"""The dashboard: `panel serve app/dashboard.py`, or `make serve`."""

import panel as pn

from app.explorer import Explorer
from app.guard import decoded
from app.session import answer, weakly
from app.shell import page

pn.extension("mathjax")

explorer = Explorer(pn.state.curdoc, decoded(pn.state.session_args))
pn.config.exception_handler = weakly(explorer.report)
pn.state.onload(answer(explorer.start))
pn.state.on_session_destroyed(weakly(explorer.close))
page(explorer, pn.state.curdoc).servable(title="AMCI Explorer")

r"""The dashboard: `panel serve app/dashboard.py`, or `make serve`."""

import panel as pn

from app.explorer import Explorer
from app.session import answer, weakly
from app.shell import page

pn.extension("mathjax")

query = {name: values[0].decode() for name, values in pn.state.session_args.items()}
explorer = Explorer(pn.state.curdoc, query)
pn.config.exception_handler = weakly(explorer.report)
pn.state.onload(answer(explorer.start))
pn.state.on_session_destroyed(weakly(explorer.close))
page(explorer, pn.state.curdoc).servable(title="AMCI Explorer")

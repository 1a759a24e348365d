r"""What `python -m amci_explorer.server.serve` serves: the same as `app/dashboard.py`."""

from amci_explorer.visit import open_page

open_page()

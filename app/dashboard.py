r"""The dashboard: `panel serve app/dashboard.py`, or `make serve`.

With your own problems: `panel serve app/dashboard.py --args my_problem.py`.
"""

from amci_explorer.visit import open_page

open_page()

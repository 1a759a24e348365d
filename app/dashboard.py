r"""The dashboard: `panel serve app/dashboard.py`, or `make serve`.

With problems of one's own: `panel serve app/dashboard.py --args my_problem.py`.
"""

from amci_explorer.visit import open_page

open_page()

"""The dashboard: what the user chose, what follows from it, and the pictures of it.

In a notebook, `from amci_explorer import explorer; explorer()` shows it in a cell.
"""

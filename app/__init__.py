"""The dashboard: what the user chose, what follows from it, and the pictures of it.

In a notebook, `from app import explorer; explorer()` shows it in a cell: the module `app.explorer`
can be called.
"""

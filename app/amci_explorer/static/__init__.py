r"""A page without a server: `python -m amci_explorer.static FOLDER` writes it into one folder."""

r"""A page without a server: `python -m app.static FOLDER` writes it into one folder."""

r"""Every sentence on the page: how to read it, and what is made from numbers."""

from __future__ import annotations

__all__ = ["CARDS", "HELP", "TITLES"]

import tomllib
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

from amci_explorer.text import slug

_TABLE = tomllib.loads((Path(__file__).parent / "help.toml").read_text(encoding="utf-8"))
# The titles of the cards behind tabs, by their names in links.
CARDS: Mapping[str, str] = _TABLE["cards"]
# And of all cards.
TITLES: Mapping[str, str] = ChainMap(_TABLE["cards"], _TABLE["titles"])
# How to read pictures and cards, by name, with a link to the page of the documentation.
HELP: Mapping[str, str] = {
    name: f'{each["text"]} <a href="docs/dashboard.md#{slug(each["section"])}" target="_blank">'
    f'{each["section"]}, in full</a> · <a href="docs/glossary.md" target="_blank">Glossary</a>'
    for name, each in _TABLE["help"].items()
}

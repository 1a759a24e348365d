r"""What a page does by itself, in JavaScript: what its server cannot know, or is not there for.

Modules come in one classic script: browsers refuse modules from a file's own folder.
"""

from __future__ import annotations

__all__ = ["SHARED", "bundle", "source"]

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.[^"]*)"\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:function|const|class) (\w+))", re.MULTILINE)
LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def source(name: str) -> str:
    """The text of a file here; a module with what it imports."""
    path = FOLDER / name
    return component(path) if path.suffix == ".mjs" else path.read_text(encoding="utf-8")


def bundle(entry: Path) -> str:
    """A script that does what a module and all that it imports do.

    Every module becomes a function that gives its exports, after those it imports.

    Arguments:
        entry: The module. Modules import names in braces by relative paths, of a JSON file its
            keys, and export functions, constants and classes where they define them.

    Raises:
        ValueError: a module imports or exports in another way, or they import one another.
    """
    parts, _ = _parts(entry)
    return "\n".join(['(() => {\n"use strict"', *parts, "})()\n"])


def component(entry: Path) -> str:
    """A module without imports that exports the `render` of a module: what Panel can hand out.

    Arguments:
        entry: The module, as for `bundle`.

    Raises:
        ValueError: as for `bundle`.
    """
    parts, name = _parts(entry)
    return "\n".join([*parts, f"export const {{render}} = {name}\n"])


def _parts(entry: Path) -> tuple[list[str], str]:
    """The modules as functions, in order, and the name of the last one's exports."""
    parts: list[str] = []
    return parts, _add(entry.resolve(), {}, parts, ())


def _add(path: Path, names: dict[Path, str], parts: list[str], above: tuple[Path, ...]) -> str:
    if path in above:
        raise ValueError(f"{path.name}: modules import one another")
    if path in names:
        return names[path]
    text = path.read_text(encoding="utf-8")
    for match in IMPORT.finditer(text):
        _add((path.parent / match[2]).resolve(), names, parts, (*above, path))

    def imported(match: re.Match[str]) -> str:
        return f"const {{{match[1]}}} = {names[(path.parent / match[2]).resolve()]}\n"

    if path.suffix != ".json":
        exports = ", ".join(EXPORT.findall(text))
        text = EXPORT.sub("", IMPORT.sub(imported, text))
        if left := LEFT.search(text):
            raise ValueError(f"{path.name}: cannot be bundled: {left[0]}")
        text = f"(() => {{\n{text}return {{{exports}}}\n}})()"
    names[path] = f"module{len(names)}"
    parts.append(f"const {names[path]} = {text}")
    return names[path]


# Constants of the pictures that the page draws as well.
SHARED: dict[str, Any] = json.loads(source("shared.json"))

"""Writes the page without a server: `python -m app.static FOLDER`."""

__all__ = ["main"]

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the folder and says where it is; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m app.static",
        description="Write a page that needs no server: one folder, to be opened or uploaded.",
    )
    parser.add_argument(
        "folder", nargs="?", default="static", help="a new folder, or one written before"
    )
    folder = Path(parser.parse_args(arguments).folder)
    # Imported late: it imports PyTorch, for which --help need not wait.
    import torch

    from amci_core.files import StoredFileError
    from app.static.folder import write

    torch.set_num_threads(1)
    try:
        written = write(folder, _tour())
    except StoredFileError as error:
        print(f"app.static: {error}", file=sys.stderr)
        return 2
    size = sum(path.stat().st_size for path in written.rglob("*") if path.is_file())
    print(f"{written / 'index.html'} ({size / 1e6:.1f} MB with all that it needs)")
    return 0


def _tour() -> Sequence[Any]:
    """The steps of the tour, where there is one."""
    if find_spec("app.tour") is None:
        return ()
    steps: Any = import_module("app.tour").steps
    return steps() if callable(steps) else steps


if __name__ == "__main__":
    sys.exit(main())

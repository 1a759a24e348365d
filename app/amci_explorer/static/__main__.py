"""Writes the page without a server: `python -m amci_explorer.static FOLDER`."""

__all__ = ["main"]

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the folder and says where it is; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m amci_explorer.static",
        description="Write a page that needs no server: one folder, to be opened or uploaded.",
    )
    parser.add_argument(
        "folder", nargs="?", default="static", help="a new or empty folder, or one written before"
    )
    folder = Path(parser.parse_args(arguments).folder)
    # Imported late: it imports PyTorch, for which --help need not wait.
    import torch

    from amci_core.io import StoredFileError
    from amci_explorer.state.tour import TourError, tour
    from amci_explorer.static.folder import write

    torch.set_num_threads(1)
    try:
        written = write(folder, tour().steps)
    except (StoredFileError, TourError) as error:
        print(f"amci_explorer.static: {error}", file=sys.stderr)
        return 2
    size = sum(path.stat().st_size for path in written.rglob("*") if path.is_file())
    print(f"{written / 'index.html'} ({size / 1e6:.1f} MB with all that it needs)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

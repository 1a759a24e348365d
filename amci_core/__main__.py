r"""`python -m amci_core` is the command `amci`."""

from __future__ import annotations

from amci_core.cli import main

if __name__ == "__main__":
    main()

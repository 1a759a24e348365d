r"""Amortized Monte Carlo integration: E[f(x; theta)] under p(x | y), for every y and theta.

The public names stand in `__init__.pyi`. They are imported at their first use, so that
`import amci_core` and `amci --help` do not wait for PyTorch.

Example:
    >>> import amci_core as amci
    >>> e = amci.estimate("tail-1d", y=1.0, theta=3.0, draws=128)
    >>> truth = amci.problem("tail-1d").truth(1.0, 3.0)
    >>> bool(abs(e.value / truth - 1) < 1e-3), str(e.verdict.level)
    (True, 'reliable')
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.3.0"

r"""Amortized Monte Carlo integration: E[f(x; theta)] under p(x | y), for every y and theta.

    problems, problem           names of the shipped problems; one of them
    model, several              a problem from distributions and f; problems of several f
    problem_from                a problem from plain functions, in NumPy or torch
    from_pymc, from_numpyro     a problem from a model of PyMC or NumPyro
    from_stan                   a problem from a Stan model at its data
    Problem, Variable           to define a problem by a class
    load_problem, with_target   a problem from a file; with another f
    check                       look for mistakes in a problem

    load_proposals              shipped proposals, or those of a folder
    learn, Choices              train proposals; what they are, instead of automatic ones
    Proposals, load_history     proposals and their model card; those along a training
    fallback_proposals          q2 or the defensive density for every term

    estimate                    mu(y, theta), its standard error, interval and verdict
    estimate_to                 the same, to a relative error
    estimate_several            means of several f from the same draws
    estimate_from_draws         from a table of draws made elsewhere
    reference_value             mu without proposals
    tables                      coefficients of estimators

    evaluate, read_cases        errors of estimators over many cases; cases from a file
    error_curves, reuse_errors  errors of one case over draws; over alpha and beta
    amortization_map            quality of proposals over a plane of cases

`help(amci_core.estimate)` shows arguments, shapes, errors and an example. Names are imported at
their first use, so that `import amci_core` does not wait for PyTorch; `__init__.pyi` lists them.

Example:
    >>> import amci_core as amci
    >>> e = amci.estimate("tail-1d", y=1.0, theta=3.0, draws=128)
    >>> truth = amci.problem("tail-1d").truth(1.0, 3.0)
    >>> bool(abs(e.value / truth - 1) < 1e-3), str(e.verdict.level)
    (True, 'reliable')
"""

from __future__ import annotations

import lazy_loader

# Without `__all__`, for which help would print every docstring.
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.3.0"

r"""A problem made of a PyMC model, whose graphs PyTensor evaluates for all points at once."""

from __future__ import annotations

__all__ = ["from_pymc"]

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from amci_core.models.base import GLOBAL, Array, Problem
from amci_core.models.functions import check_latents, check_observed, needs, problem_from


def from_pymc(
    model: Any, *, f: Callable[..., Any], observed: Sequence[str] | None = None, **options: Any
) -> Problem:
    """A problem made of a PyMC model: its latent variables are x, its observed ones y.

    x holds the latent variables in PyMC's unconstrained space, one after the other: every
    coordinate is a real number, and log p(x) has the Jacobian of PyMC's transforms. Draws are
    PyMC's own. The graphs are evaluated by NumPy in float64, for all points at once, so nothing
    is compiled to machine code; a second passes before the problem is there.

    Arguments:
        model: A `pymc.Model`. Sum discrete latent variables out first.
        f: A function of the values by name and of theta, or of the values alone if there is no
            theta. `v["tau"]` has the shape (n, \\*shape), in PyMC's own scale; deterministics that
            depend on no y are among them. Boolean for a probability.
        observed: Names of all observed variables in the order in which y joins them; None: that
            of the model. [] for a problem without y, at the model's data; potentials need this.
        options: `sample_theta`, `support_plus`, `name` and `description` of
            `amci_core.problem_from`.

    Returns:
        A `Problem`: `amci_core.check`, `learn`, `estimate` and the page take it. Its
        `named_draws(x)` are the values by name.

    Raises:
        ImportError: PyMC is missing.
        ValueError: some observed variables are left out, or there are potentials beside y; a
            latent variable is discrete or its prior is improper; or as `amci_core.problem_from`.

    Example:
        >>> import pymc as pm  # doctest: +SKIP
        >>> with pm.Model() as model:  # doctest: +SKIP
        ...     rate = pm.Gamma("rate", 2.0, 1.0)
        ...     pm.Poisson("counts", rate, observed=[3, 5, 2])
        >>> problem = from_pymc(model, f=lambda v: v["rate"] > 4.0)  # doctest: +SKIP
        >>> amci_core.reference_value(problem, y=[3, 5, 2]).value  # doctest: +SKIP
        0.122...
    """
    needs("from_pymc", "PyMC", "pymc")
    if not getattr(model, "free_RVs", None):
        raise ValueError(f"model: expected a pymc.Model with latent variables, got {model!r:.60}")
    potentials = [term.name for term in model.potentials]
    names = check_observed(observed, [rv.name for rv in model.observed_RVs], potentials)
    check_latents(
        rv.name
        for rv in model.free_RVs
        if "float" not in rv.dtype
        or getattr(rv.owner.op, "name", "") in ("flat", "half_flat")
        or getattr(model.rvs_to_transforms[rv], "name", "") in ("circular", "ordered")
    )
    return problem_from(f=f, **_functions(model, [model[name] for name in names]), **options)


def _functions(model: Any, freed: list[Any]) -> dict[str, Any]:
    """The functions of a PyMC model that `problem_from` takes, with these variables as y."""
    from pymc.logprob.utils import replace_rvs_by_values
    from pytensor.graph.traversal import ancestors

    latents, transforms, values = model.free_RVs, model.rvs_to_transforms, model.rvs_to_values
    known = [d for d in model.deterministics if not {*ancestors([d])} & {*freed}]
    names = [rv.name for rv in (*latents, *known)]
    x_values, y_values = [values[rv] for rv in latents], [values[rv] for rv in freed]

    def of_x(graphs: list[Any]) -> Any:
        by_value = {rv: values[rv] for rv in latents}
        return replace_rvs_by_values(graphs, rvs_to_values=by_value, rvs_to_transforms=transforms)

    def log_p(terms: list[Any]) -> list[Any]:
        return [sum(term.sum() for term in model.logp(terms, sum=False))]

    unconstrained = [
        rv if transforms[rv] is None else transforms[rv].forward(rv, *rv.owner.inputs)
        for rv in latents
    ]
    start = model.initial_point()
    x_shapes = [start[value.name].shape for value in x_values]
    y_shapes = [tuple(value.shape.eval()) for value in y_values]
    log_prior = _Batched(log_p(latents), x_values, x_shapes)
    draw_x = _Batched(unconstrained, [], [])
    named = _Batched(of_x([*latents, *known]), x_values, x_shapes)
    functions = {
        "log_prior": lambda x: log_prior(x)[0],
        "sample_prior": lambda n, rng: _joined(draw_x(np.empty((n, 0)), rng)),
        "named": lambda x: dict(zip(names, named(x), strict=True)),
    }
    if data := model.observed_RVs + model.potentials:
        log_data = _Batched(log_p(data), x_values + y_values, x_shapes + y_shapes)
        functions["log_likelihood"] = lambda *xy: np.broadcast_to(
            log_data(np.hstack(xy))[0], len(xy[0])
        )
    if freed:
        draw_y = _Batched(of_x(freed), x_values, x_shapes)
        functions["sample_likelihood"] = lambda x, rng: _joined(draw_y(x, rng))
    return functions


def _joined(values: list[Array]) -> Array:
    """Values of variables, (n, *shape) each, side by side: (n, D)."""
    return np.hstack([np.reshape(value, (len(value), -1)) for value in values])


class _Batched:
    """Graphs as a function of rows (n, D), whose parts stand for inputs of these shapes."""

    def __init__(self, graphs: list[Any], inputs: list[Any], shapes: list[Any]) -> None:
        import pymc
        import pytensor.tensor as pt
        from pymc.logprob.utils import local_check_parameter_to_ninf_switch
        from pymc.pytensorf import find_rng_nodes
        from pytensor.compile.mode import get_mode
        from pytensor.compile.ops import ViewOp
        from pytensor.graph.fg import FunctionGraph
        from pytensor.graph.replace import vectorize_graph
        from pytensor.graph.rewriting.basic import in2out
        from pytensor.graph.rewriting.utils import rewrite_graph
        from pytensor.scalar import add, mul
        from pytensor.tensor.elemwise import Elemwise
        from pytensor.tensor.random.op import RandomVariable

        self._kinds = shapes, [value.dtype for value in inputs]
        rngs, n, zero = find_rng_nodes(graphs), pt.lscalar(), pt.bscalar()
        self._rngs = len(rngs)
        graph = FunctionGraph(outputs=graphs, clone=True, copy_inputs=False)
        rewrite_graph(graph, include=("inline_ofg_expansion",), clone=False)
        # Before there is a batch: a check of parameters is of one row then, not of all at once.
        in2out(local_check_parameter_to_ninf_switch).rewrite(graph)
        # A batch of zeros in the first parameter of every draw makes it a batch of draws. NumPy
        # would take views, as of deterministics, and sums of three arrays number by number.
        for node in graph.toposort():
            if isinstance(node.op, ViewOp):
                graph.replace(node.outputs[0], node.inputs[0])
            elif isinstance(node.op, Elemwise) and node.op.scalar_op in (add, mul):
                graph.replace(node.outputs[0], reduce(node.op, node.inputs), import_missing=True)
            elif isinstance(node.op, RandomVariable):
                at = len(node.inputs) - len(node.op.dist_params(node))
                graph.change_node_input(node, at, node.inputs[at] + zero, import_missing=True)
        given = [pt.tensor(dtype=value.dtype, shape=(None, *value.type.shape)) for value in inputs]
        given += [rng.type() for rng in rngs]
        rows = {zero: pt.zeros(n, dtype="int8"), **dict(zip([*inputs, *rngs], given, strict=True))}
        try:
            batch = vectorize_graph(graph.outputs, rows)
        except (NotImplementedError, ValueError) as error:
            raise ValueError(
                "model: expected variables that PyTensor draws in batches, unlike AR, "
                "NormalMixture and LKJCholeskyCov. Write them by others"
            ) from error
        mode = get_mode("FAST_COMPILE").excluding("local_add_canonizer", "local_mul_canonizer")
        self._function = pymc.compile([n, *given], batch, mode=mode, on_unused_input="ignore")

    def __call__(self, rows: Array, rng: np.random.Generator | None = None) -> list[Array]:
        ends = np.cumsum([math.prod(shape) for shape in self._kinds[0]])[:-1]
        parts = [
            part.reshape(-1, *shape).astype(kind)
            for part, shape, kind in zip(np.split(rows, ends, 1), *self._kinds, strict=False)
        ]
        with GLOBAL:
            rngs = rng.spawn(self._rngs) if rng else ()
            values: list[Array] = self._function(len(rows), *parts, *rngs)
            return values

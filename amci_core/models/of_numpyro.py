r"""A problem made of a NumPyro model, whose log densities JAX compiles for all points at once."""

from __future__ import annotations

__all__ = ["from_numpyro"]

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from amci_core.models.base import Array, Problem
from amci_core.models.functions import check_latents, check_observed, needs, problem_from

# Points that are evaluated at once.
BLOCK = 1024


def from_numpyro(
    model: Callable[..., Any],
    *,
    f: Callable[..., Any],
    observed: Sequence[str] | None = None,
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Problem:
    """A problem made of a NumPyro model: its latent sites are x, its observed ones y.

    x holds the latent sites in NumPyro's unconstrained space, one after the other: every
    coordinate is a real number, and log p(x) has the Jacobian of NumPyro's transforms. Draws are
    NumPyro's own. JAX compiles five functions, in float64 for any configuration of yours, at
    their first use: seconds.

    Arguments:
        model: A NumPyro model.
        f: A function of the values by name and of theta, or of the values alone if there is no
            theta. `v["tau"]` has the shape (n, \\*shape), in the model's own scale; deterministic
            sites are among them. Boolean for a probability.
        observed: Names of all sites with data in the order in which y joins them; None: that of
            the model. [] for a problem without y, at these data; factors need this.
        model_args: Positional arguments of the model, with data: their shapes are those of y.
        model_kwargs: Its other arguments.
        options: `sample_theta`, `support_plus`, `name` and `description` of
            `amci_core.problem_from`.

    Returns:
        A `Problem`: `amci_core.check`, `learn`, `estimate` and the page take it. Its
        `named_draws(x)` are the values by name.

    Raises:
        ImportError: NumPyro is missing.
        ValueError: some sites with data are left out, or there are factors beside y; a latent
            site is discrete or its prior is improper; or as `amci_core.problem_from`.

    Example:
        >>> import numpyro  # doctest: +SKIP
        >>> from numpyro.distributions import Gamma, Poisson  # doctest: +SKIP
        >>> def model(counts):  # doctest: +SKIP
        ...     rate = numpyro.sample("rate", Gamma(2.0, 1.0))
        ...     with numpyro.plate("days", 3):
        ...         numpyro.sample("counts", Poisson(rate), obs=counts)
        >>> problem = from_numpyro(  # doctest: +SKIP
        ...     model, f=lambda v: v["rate"] > 4.0, model_args=(np.array([3, 5, 2]),)
        ... )
    """
    needs("from_numpyro", "NumPyro", "numpyro")
    functions = _functions(model, observed, tuple(model_args), dict(model_kwargs or {}))
    return problem_from(f=f, **functions, **options)


def _functions(
    model: Any, observed: Sequence[str] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The functions of a NumPyro model that `problem_from` takes."""
    import jax
    from jax.flatten_util import ravel_pytree
    from numpyro import handlers
    from numpyro.infer import util

    def sites(model: Any) -> dict[str, Any]:
        trace = handlers.trace(model).get_trace(*args, **kwargs)
        return {
            name: site | {"value": jax.numpy.asarray(site["value"])}
            for name, site in trace.items()
            if site["type"] == "sample"
        }

    def joined(sites: dict[str, Any]) -> Any:
        """Values of y, and how to split them."""
        return ravel_pytree([sites[name]["value"].astype(float) for name in chosen])

    def unconstrained(sites: dict[str, Any]) -> Any:
        values = {name: sites[name]["value"] for name in latents}
        values = util.unconstrain_fn(model, args, kwargs, values)
        return ravel_pytree([values[name] for name in latents])

    def free(x: Any) -> dict[str, Any]:
        return dict(zip(latents, split_x(x), strict=True))

    def named(x: Any) -> Any:
        return util.constrain_fn(seeded, args, kwargs, free(x), return_deterministic=True)

    def log_prior(x: Any) -> Any:
        return -util.potential_energy(handlers.block(seeded, hide=data), args, kwargs, free(x))

    def log_likelihood(x: Any, *y: Any) -> Any:
        parts = zip(chosen, split_y(*y), strict=True) if y else ()
        seen = {name: part.astype(trace[name]["value"].dtype) for name, part in parts}
        at_x = handlers.block(handlers.substitute(seeded, data=named(x)), hide=latents)
        return util.log_density(at_x, args, kwargs, seen)[0]

    def draw_x(key: Any) -> Any:
        return unconstrained(sites(handlers.seed(model, key)))[0]

    def draw_y(x: Any, key: Any) -> Any:
        freed = handlers.substitute(handlers.uncondition(model), data=named(x))
        return joined(sites(handlers.seed(freed, key)))[0]

    seeded = handlers.seed(model, 0)
    with jax.enable_x64(True):
        trace = sites(handlers.substitute(seeded, substitute_fn=_check))
        data = [name for name, site in trace.items() if site["is_observed"]]
        factors = [name for name in data if not trace[name]["value"].size]
        chosen = check_observed(observed, [name for name in data if name not in factors], factors)
        latents = [name for name in trace if name not in data]
        split_x, split_y = unconstrained(trace)[1], joined(trace)[1]
    of_keys, of_x = _of_rows(draw_x), _of_rows(draw_y)
    functions = {
        "log_prior": _of_rows(log_prior),
        "sample_prior": lambda n, rng: of_keys(_keys(n, rng)),
        "named": _of_rows(named),
    }
    if data:
        functions["log_likelihood"] = _of_rows(log_likelihood)
    if chosen:
        functions["sample_likelihood"] = lambda x, rng: of_x(x, _keys(len(x), rng))
    return functions


def _check(site: dict[str, Any]) -> None:
    """Refuses a latent site without a density, before it is drawn."""
    if site["type"] == "sample" and not site["is_observed"]:
        law = site["fn"]
        while hasattr(law, "base_dist"):
            law = law.base_dist
        if law.support.is_discrete or type(law).__name__ == "ImproperUniform":
            check_latents([site["name"]])


def _keys(n: int, rng: np.random.Generator) -> Any:
    """Keys of JAX's default generator, one for each of n draws."""
    return rng.integers(2**32, size=(n, 2), dtype=np.uint32)


def _of_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of vectors as one of rows, in blocks of one size, for which JAX compiles once."""
    import jax

    compiled = jax.jit(jax.vmap(function))

    def evaluate(*rows: Array) -> Any:
        n = len(rows[0])
        with jax.enable_x64(True):
            blocks = [
                compiled(
                    *(row[np.minimum(np.arange(begin, begin + BLOCK), n - 1)] for row in rows)
                )
                for begin in range(0, n, BLOCK)
            ]
            return jax.tree.map(lambda *parts: np.concatenate(parts)[:n], *blocks)

    return evaluate

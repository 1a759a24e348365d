r"""The registry of flow families: how each is built, and the problems that it fits.

A new family is one file, with a constructor, and one line in `FAMILIES`; `forms` says under which
arguments `learn` tries it. The families here are made of the layers in `amci_core.flows.layers`.
"""

from __future__ import annotations

__all__ = ["FAMILIES", "forms", "normflows"]

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from amci_core.flows.autoregressive import SplineProposal
from amci_core.flows.density import Trainable
from amci_core.flows.external import NormflowsProposal, neural_spline
from amci_core.flows.gamma_beta import GammaBeta
from amci_core.flows.layers import (
    ComposedFlow,
    Layer,
    Linear,
    Marginals,
    MaskedAffine,
    Radial,
    RadialSpline,
    Shift,
    ToSupport,
    Triangular,
)
from amci_core.flows.mixture import Centres, DefensiveComponent, Mixture, defensive_spline
from amci_core.flows.pieces import ComplementGaussian
from amci_core.flows.reading import reading_of
from amci_core.flows.supports import (
    Coordinates,
    coordinate_bijectors,
    coordinates_of,
    half_lines,
    on_half_line,
)
from amci_core.models.base import Problem

# With more coordinates than this, one network serves them all.
MANY = 10


def gaussian(problem: Problem, **network: Any) -> ComposedFlow:
    """A Gaussian, its mean and the factor of its covariance from the conditioner.

    Without hidden layers the mean is affine in y: the exact family of a Gaussian model's
    posterior.

    Arguments:
        problem: The problem whose x it proposes.
        network: `hidden`, `activation` and `reads_theta` of the network, see `Conditioner`.
    """
    return ComposedFlow(problem, [Triangular(problem.x.dim)], **network)


def radial(problem: Problem, *, layers: int, shift: bool, **network: Any) -> ComposedFlow:
    """The paper's family: radial layers over N(0, I), and a shift where they must translate.

    Arguments:
        problem: The problem whose x it proposes.
        layers: Number of radial layers.
        shift: Whether a translation follows (radial layers cannot translate).
        network: `hidden`, `activation` and `reads_theta` of the network, see `Conditioner`.
    """
    stack: list[Layer] = [Radial(problem.x.dim) for _ in range(layers)]
    if shift:
        stack.append(Shift(problem.x.dim))
    return ComposedFlow(problem, stack, **network)


def masked_autoregressive(
    problem: Problem, *, reads_theta: bool, layers: int, hidden: int, activation: str
) -> ComposedFlow:
    """The paper's family for the five-dimensional tail: masked layers over N(0, I).

    Every second layer runs through the coordinates backwards.

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, appendix
        "Five-dimensional tail integral".

    Arguments:
        problem: The problem whose x it proposes.
        reads_theta: Whether it depends on theta beside y.
        layers: Number of masked layers.
        hidden: Width of the two hidden layers of each, D - 1 at least.
        activation: The networks' activation.
    """
    stack = [
        MaskedAffine(problem.x.dim, hidden=hidden, activation=activation, backwards=i % 2 == 1)
        for i in range(layers)
    ]
    # The conditioner adds to hidden layers, so that it does not start small.
    return ComposedFlow(
        problem, stack, reads_theta=reads_theta, hidden=(), activation=activation, small=False
    )


def composed_spline(
    problem: Problem,
    *,
    coordinates: Coordinates,
    bins: int,
    radial: bool = False,
    **network: Any,
) -> ComposedFlow:
    """Splines of standardized points, then a map of the radius, a rotation, and the support.

    Coordinate-by-coordinate splines are exact where the target is a product, and short of bins
    where it is a ring, or has an edge that runs across the coordinates. Here a fixed linear map
    follows, whose columns are the directions in which the target differs most from the prior.

    Arguments:
        problem: The problem whose x it proposes, of two dimensions at least.
        coordinates: For each coordinate of x its `kind`, one with an unconstrained space, and
            about its `centre` and `scale` there, see `coordinate_bijectors`.
        bins: Number of bins of each spline.
        radial: Whether points move along their radius before the linear map.
        network: `hidden`, `activation` and `reads_theta` of the networks, see `Conditioner`.
    """
    standard = [{"kind": "line"} for _ in coordinates]
    base = SplineProposal(problem, coordinates=standard, bins=bins, **network)
    stack: list[Layer] = [RadialSpline(len(coordinates), bins=bins)] if radial else []
    return _to_support(problem, stack, coordinates, base=base, **network)


def layered_spline(
    problem: Problem,
    *,
    coordinates: Coordinates,
    bins: int,
    width: int,
    **network: Any,
) -> ComposedFlow:
    """One flow for all coordinates, for more than about ten of them.

    A standard normal point goes through splines of its own for every coordinate, which depend on y
    and theta alone; through a masked layer, which makes coordinates depend on each other; along
    its radius; through a fixed linear map; and to the support. A limit state is then a spline of
    the first coordinate, a sphere a map of the radius, and neither needs a network as deep as a
    hundred coordinates.

    Arguments:
        problem: The problem whose x it proposes.
        coordinates: For each coordinate of x its `kind`, `centre` and `scale`, see
            `coordinate_bijectors`.
        bins: Number of bins of each spline.
        width: Width of the masked layer's network, D - 1 at least.
        network: `hidden`, `activation` and `reads_theta` of the network, see `Conditioner`.
    """
    dim = len(coordinates)
    stack: list[Layer] = [
        Marginals(dim, bins=bins),
        MaskedAffine(dim, hidden=width, activation=network["activation"], backwards=False),
        RadialSpline(dim, bins=bins),
    ]
    return _to_support(problem, stack, coordinates, **network)


def defensive(
    problem: Problem,
    *,
    term: str,
    centres: Mapping[str, Any] | None = None,
    flow: Mapping[str, Any] | None = None,
    weight: float = 0.05,
    form: str = "",
) -> Trainable:
    """A flow of any family, mixed with the defensive component of its term; or that alone.

    The component is the problem's defensive density, half of it Student-t components if given.

    Arguments:
        problem: The problem whose x it proposes; for q1_minus the negated one.
        term: `E1_plus` or `E2`.
        centres: The arguments of `Centres`; None if the problem's own density is enough.
        flow: The flow's `family` and its `arguments`; None for the component alone.
        weight: The weight of the defensive component.
        form: A name for the form of the flow, for people.
    """
    component: Trainable = DefensiveComponent(problem, term)
    if centres is not None:
        component = Mixture(component, Centres(problem, **centres), 0.5)
    if flow is None:
        return component
    return Mixture(FAMILIES[flow["family"]](problem, **flow["arguments"]), component, weight)


def normflows(make: Callable[..., Any]) -> Callable[..., NormflowsProposal]:
    """A family of any model of normflows with context: to be trained here, and tried by `learn`.

    Put it into the registry under a name of its own. Weights that were saved under this name are
    read wherever it stands there.

    Arguments:
        make: Takes a problem and gives a `normflows.ConditionalNormalizingFlow` on its x, with
            `DiagGaussian` for a base. The points are about standard normal; their way to the
            support of x follows. The context has `problem.y.dim + problem.theta.dim` columns,
            about in [-1, 1]. The global generator is seeded while it is made.

    Raises:
        ValueError: it is no function.

    Example:
        >>> import normflows as nf
        >>> import amci_core as amci
        >>> def make(problem):
        ...     layer = nf.flows.AutoregressiveRationalQuadraticSpline(
        ...         problem.x.dim, 1, 16, num_context_channels=problem.y.dim + problem.theta.dim
        ...     )
        ...     base = nf.distributions.DiagGaussian(problem.x.dim, trainable=False)
        ...     return nf.ConditionalNormalizingFlow(base, [layer])
        >>> FAMILIES["my-spline"] = normflows(make)
        >>> choices = amci.Choices(family="my-spline")
        >>> amci.learn(amci.problem("tail-1d"), steps=4, choices=choices).present
        (0, 2)
        >>> del FAMILIES["my-spline"]
    """
    if not callable(make) or isinstance(make, torch.nn.Module):
        raise ValueError(
            "make: expected a function of a problem that gives a model, such as "
            f"lambda problem: nf.ConditionalNormalizingFlow(...), got {type(make).__name__}"
        )

    return partial(NormflowsProposal, make)


def _to_support(
    problem: Problem,
    layers: list[Layer],
    coordinates: Coordinates,
    **arguments: Any,
) -> ComposedFlow:
    """A flow whose layers end with a linear map, about where x lies, and its support."""
    bijectors = coordinate_bijectors(problem, coordinates)
    layers = [*layers, Linear(len(bijectors)), ToSupport(bijectors)]
    flow = ComposedFlow(problem, layers, **arguments)
    centre, scale = torch.tensor([(b.centre, b.scale) for b in bijectors]).unbind(-1)
    flow.whiten(centre, scale.diag())
    return flow


def forms(
    problem: Problem, *, reads_theta: bool, bins: int | None = None, width: int | None = None
) -> dict[str, dict[str, Any]]:
    """Families that fit a problem, `{"family": ..., "arguments": ...}` by form; simplest first.

    Families that were put into `FAMILIES` since get `coordinates` and `reads_theta`.

    Arguments:
        problem: The problem; for q1_minus the negated one.
        reads_theta: Whether the proposal depends on theta.
        bins: Bins of each spline; None for a number that suits the dimension of x.
        width: Units of both hidden layers of each network; None for 64.

    Example:
        >>> from amci_core import problem
        >>> list(forms(problem("tail-1d"), reads_theta=True))
        ['half-line', 'half-line from zero', 'spline']
    """
    dim = problem.x.dim
    hidden = width or 64
    network = {
        "bins": bins or (32 if dim == 1 else 8 if dim > MANY else 16),
        "hidden": [hidden] * 2,
        "activation": "silu",
        "reads_theta": reads_theta,
    }
    if (reading := reading_of(problem)) is not None:
        network["reading"] = reading
    standardized = coordinates_of(problem)

    def form(
        family: str, coordinates: Coordinates = standardized, **arguments: Any
    ) -> dict[str, Any]:
        arguments = {**network, "coordinates": coordinates, **arguments}
        return {"family": family, "arguments": arguments}

    known: dict[str, dict[str, Any]] = {}
    if reads_theta and on_half_line(problem):
        for name, kind in (("half-line", "half-line"), ("half-line from zero", "soft-half-line")):
            known[name] = form("autoregressive-spline", half_lines(problem, kind))
    if dim == 1:
        known["spline"] = form("autoregressive-spline")
    elif dim <= MANY:
        known["by coordinate"] = form("autoregressive-spline", coordinates_of(problem, cut=True))
        known["rotated"] = form("composed-spline")
        known["along the radius"] = form("composed-spline", radial=True)
    else:
        layered = form("layered-spline", width=max(hidden * 3 // 2, dim))
        known["by coordinate"] = known["rotated"] = layered
    arguments = {"coordinates": standardized, "reads_theta": reads_theta}
    for name in FAMILIES:
        if name not in SHIPPED:
            known[name] = {"family": name, "arguments": arguments}
    return known


# Constructors: they take a problem and keyword arguments, those that are stored with weights.
FAMILIES: dict[str, Callable[..., Trainable]] = {
    "autoregressive-spline": SplineProposal,
    "complement-gaussian": ComplementGaussian,
    "composed-spline": composed_spline,
    "defensive": defensive,
    "defensive-spline": defensive_spline,
    "gamma-beta": GammaBeta,
    "gaussian": gaussian,
    "layered-spline": layered_spline,
    "masked-autoregressive": masked_autoregressive,
    "neural-spline": normflows(neural_spline),
    "radial": radial,
}
SHIPPED = frozenset(FAMILIES)

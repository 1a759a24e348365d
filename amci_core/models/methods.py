r"""What the methods of a definition are wrapped in: seeds of samplers, ends of ranges."""

from __future__ import annotations

__all__ = ["DENSITIES", "SAMPLERS", "off_the_ends", "seeded"]

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any

import torch

# All end with the argument `generator`.
SAMPLERS = (
    *("sample_prior", "sample_likelihood", "sample_theta"),
    *("sample_defensive", "sample_training"),
)
# Of x, their first argument.
DENSITIES = ("log_prior", "log_likelihood", "f")
# torch's global generators belong to the process, not to a thread.
_GLOBAL = RLock()


def seeded(sampler: Callable[..., Any]) -> Callable[..., Any]:
    """A sampler whose draws depend on its generator alone, if it uses torch's global one too.

    `torch.distributions` take no generator: `Gamma(2.0, 1.0).sample()` draws from the global one.
    While the sampler runs, the global one is seeded from a copy of `generator`, and restored
    after. `generator` moves on by a number where the global one was used, so that the next call
    draws anew; a sampler that uses `generator` alone draws what it would draw by itself. One
    sampler runs at a time in a process.

    Example:
        >>> from torch.distributions import Gamma
        >>> draw = seeded(lambda n, generator: Gamma(2.0, 1.0).sample((n,)))
        >>> generator = torch.Generator().manual_seed(0)
        >>> first, second = draw(3, generator), draw(3, generator)
        >>> torch.equal(first, second), torch.equal(first, draw(3, generator.manual_seed(0)))
        (False, True)
    """

    @wraps(sampler)
    def draw(*arguments: Any, **named: Any) -> Any:
        # Sent to another process it takes what it names along, and a lock cannot be sent.
        return _drawn(sampler, *arguments, **named)

    return draw


def _drawn(sampler: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    generator: torch.Generator = named.get("generator", arguments[-1])
    device = generator.device
    copy = torch.Generator(device=device)
    copy.set_state(generator.get_state())
    seed = int(torch.randint(2**62, (), generator=copy, device=device))
    streams = [torch.default_generator]
    if device.type == "cuda":
        streams.append(torch.cuda.default_generators[device.index or 0])
    with _GLOBAL:
        before = [stream.get_state() for stream in streams]
        try:
            started = [stream.manual_seed(seed).get_state() for stream in streams]
            drawn = sampler(*arguments, **named)
            ended = [stream.get_state() for stream in streams]
        finally:
            for stream, state in zip(streams, before, strict=True):
                stream.set_state(state)
    if not all(map(torch.equal, started, ended)):
        torch.rand((), generator=generator, device=device)
    return drawn


def off_the_ends(density: Callable[..., Any]) -> Callable[..., Any]:
    """A function of x that is evaluated beside the ends of the range of x, never at them.

    Rounding puts a draw on an end now and then, where a density such as Beta(1/2, 1/2) is infinite
    and others are NaN, though their integrals are not. Such an x moves to the next number
    within the range.
    """

    @wraps(density)
    def evaluated(self: Any, x: Any, *arguments: Any, **named: Any) -> Any:
        return density(self, self.x.off_the_ends(x), *arguments, **named)

    return evaluated

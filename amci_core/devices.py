r"""Where PyTorch computes: on the CPU, or on a GPU where there is one."""

from __future__ import annotations

__all__ = ["AUTO", "CPU", "device_named", "one_thread"]

from collections.abc import Iterator
from contextlib import contextmanager

import torch

AUTO = "auto"
CPU = torch.device("cpu")
# With fewer points at a time a GPU is slower than one thread of a CPU: launches take longer.
POINTS = 10_000


def device_named(name: str, points: float = POINTS) -> torch.device:
    """The device of a name; `auto` is a GPU where there is one and enough points fill it.

    Arguments:
        name: `auto`, `cpu`, `cuda` or another name of a torch device.
        points: How many points are computed at a time: draws, or points of a training step.

    Raises:
        ValueError: PyTorch has no such device here.

    Example:
        >>> device_named("auto", points=64)
        device(type='cpu')
    """
    if name == AUTO:
        return torch.device("cuda") if points >= POINTS and torch.cuda.is_available() else CPU
    try:
        device = torch.device(name)
        torch.Generator(device)  # meta has none
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise ValueError(
            f"device: expected auto, cpu or a PyTorch device of this machine, got {name!r}"
        ) from None
    return device


@contextmanager
def one_thread() -> Iterator[None]:
    """Has PyTorch compute in one thread: where cores are busy more can be 30 times as slow."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)

r"""Where PyTorch computes: on the CPU, or on a GPU where there is one."""

from __future__ import annotations

__all__ = ["AUTO", "CPU", "device_named", "moved"]

import torch

from amci_core.flows import Proposals

AUTO = "auto"
CPU = torch.device("cpu")


def device_named(name: str) -> torch.device:
    """The device of a name; `auto` is a GPU where PyTorch finds one, else the CPU.

    Raises:
        ValueError: PyTorch has no such device here.

    Example:
        >>> device_named("cpu")
        device(type='cpu')
    """
    if name == AUTO:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.Generator(device)  # meta has none
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError, ValueError):
        raise ValueError(
            f"device: expected auto, cpu or a torch device that this machine has, got {name!r}"
        ) from None
    return device


def moved(proposals: Proposals, device: torch.device) -> Proposals | None:
    """The proposals on a device, those given staying where they are.

    None where one of them is no network of PyTorch and computes on the CPU alone.
    """
    if device.type == "cpu":
        return proposals
    return proposals.converted(lambda network: network.to(device))

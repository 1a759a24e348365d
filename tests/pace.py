"""How fast this machine is now, for tests of what some seconds of training reach."""

import time

import torch

# Of processor time for the work below, on the laptop that the seconds were chosen on.
USUAL = 0.38


def slowness() -> float:
    """How many times slower this machine is than that laptop, at least 1.

    Neighbours that take the cache, or half of a core, slow a process down also where only its own
    processor time counts.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return max(1.0, max(_seconds() for _ in range(3)) / USUAL)
    finally:
        torch.set_num_threads(threads)


def _seconds() -> float:
    """Five hundred steps of a small network."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
    optimizer, x = torch.optim.Adam(net.parameters()), torch.linspace(-1, 1, 512).reshape(256, 2)
    began = time.process_time()
    for _ in range(500):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    return time.process_time() - began

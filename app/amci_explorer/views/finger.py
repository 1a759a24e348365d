r"""Densities that follow a handle at once: the page computes them, the server confirms them."""

from __future__ import annotations

__all__ = ["LiveDensities"]

import json
from functools import lru_cache
from typing import Any

import param
from panel.custom import JSComponent

from amci_explorer.compute.session import callback
from amci_explorer.js.scripts import FINGER
from amci_explorer.numbers.weights import LIVE, weights
from amci_explorer.problems import registry
from amci_explorer.state.state import State


class FingerPage(JSComponent):
    """What the page knows of the case that the server has drawn, and of its proposals."""

    key: Any = param.String(doc="Whose densities they are; empty where the page cannot compute.")
    extent: Any = param.List(default=[0.0, 1.0], doc="Ends of the pictures, on the line.")
    y: Any = param.List(default=[], doc="Of the case.")
    theta: Any = param.List(default=[], doc="Of the case.")
    asked: Any = param.String(doc="The key whose weights the page wants.")
    weights: Any = param.String(doc="Proposals in JSON, with their key; empty until asked for.")
    _esm = FINGER


class LiveDensities:
    """Creates what follows the handles in the page; invisible.

    Weights are sent when a handle is first touched: who only looks does not wait for them.

    Arguments:
        state: What is looked at.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.panel = FingerPage(width=0, height=0, margin=0)
        self.panel.param.watch(callback(self._send), "asked")

    def show(self, found: Any) -> None:
        """Says what is drawn next; before it is."""
        state = self._state
        problem = state.problem
        key = f"{problem.name}/{state.settings.variant}" if self._can() else ""
        if key != self.panel.key:
            self.panel.param.update(key=key, weights="")
            if key and self.panel.asked == key:
                self._send()
        if key:
            self.panel.param.update(
                extent=list(found.extent) if problem.x.dim == 1 else [],
                y=list(state.y),
                theta=list(state.theta),
            )

    def _can(self) -> bool:
        state = self._state
        return (
            state.problem.name in LIVE
            and state.settings.snapshot is None
            and bool(_stored(state.problem.name, state.settings.variant))
        )

    def _send(self, *_: Any) -> None:
        key = self.panel.key
        if key and self.panel.asked == key:
            self.panel.weights = _stored(*key.split("/"))


@lru_cache(maxsize=16)
def _stored(problem: str, variant: str) -> str:
    """Proposals as the page reads them; empty where it cannot evaluate them."""
    try:
        proposals = weights(registry.proposals(problem, variant))
    except ValueError:
        return ""
    return json.dumps({"key": f"{problem}/{variant}", "proposals": proposals})

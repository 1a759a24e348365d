r"""Optimizers by name, and their state as tensors and plain numbers.

SOAP is Adam in the eigenbases of Shampoo's preconditioners. The gradient of refinement grows quiet
as a proposal comes near its target, so that what is left is curvature, which it takes away: at
equal time its divergence is a half to a seventh of Adam's, see `benchmarks/learning.py`.

References:
    Kingma, Ba, Adam: A Method for Stochastic Optimization, 2015.
    Vyas et al., SOAP: Improving and Stabilizing Shampoo using Adam, 2025.
"""

from __future__ import annotations

__all__ = ["OPTIMIZERS", "load_state", "state_of"]

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

# The side of a weight beyond which it has no preconditioner: one of a thousand takes a second.
LARGEST_SIDE = 512


def adam(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """Adam with PyTorch's defaults."""
    return torch.optim.Adam(parameters, lr=learning_rate)


def soap(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """SOAP without weight decay, its bases renewed every ten steps."""
    # Only here: the library takes a second to import.
    from pytorch_optimizer import SOAP

    _without_compiler()
    made: torch.optim.Optimizer = SOAP(
        [p for p in parameters if p.requires_grad],
        lr=learning_rate,
        weight_decay=0.0,
        max_precondition_dim=LARGEST_SIDE,
    )
    return made


OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]] = {
    "adam": adam,
    "soap": soap,
}


def _without_compiler() -> None:
    """Spares the import of PyTorch's compiler, 2 to 5 s at the first step.

    Some methods of its optimizers would import it to say that they are not compiled.
    """
    for name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        method = getattr(getattr(torch.optim.Optimizer, name), "__wrapped__", None)
        if method is not None:
            method.__dynamo_disable = method


def state_of(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors of an optimizer's state by name, and all of it with these names in their places."""
    tensors: dict[str, Tensor] = {}

    def taken(value: Any, name: str) -> Any:
        if isinstance(value, Tensor):
            # Files keep no strides, on which the rounding of products depends.
            columns = value.ndim == 2 and not value.is_contiguous()
            tensors[name] = value.mT if columns else value
            return {"tensor": name, "columns": columns}
        if isinstance(value, dict):
            return {str(key): taken(part, f"{name}.{key}") for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [taken(part, f"{name}.{i}") for i, part in enumerate(value)]
        return value

    state = optimizer.state_dict()
    steps = [group.get("step", 0) for group in state["param_groups"]]
    plain = {str(i): taken(each, str(i)) for i, each in state["state"].items()}
    return tensors, {"steps": steps, "state": plain}


def load_state(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], plain: dict[str, Any]
) -> None:
    """Continues where `state_of` was taken.

    Raises:
        KeyError, TypeError, ValueError: it is the state of another optimizer.
    """

    def given(value: Any) -> Any:
        if isinstance(value, dict) and "tensor" in value:
            tensor = tensors[value["tensor"]]
            return tensor.mT if value["columns"] else tensor
        if isinstance(value, dict):
            return {key: given(part) for key, part in value.items()}
        return [given(part) for part in value] if isinstance(value, list) else value

    groups = optimizer.state_dict()["param_groups"]
    for group, step in zip(groups, plain["steps"], strict=True):
        if step:
            group["step"] = step
    state = {int(i): given(each) for i, each in plain["state"].items()}
    optimizer.load_state_dict({"state": state, "param_groups": groups})

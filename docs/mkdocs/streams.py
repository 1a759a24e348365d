r"""Shows the plain form of a stream, which `last_item` makes, as the function that it is."""

from __future__ import annotations

__all__ = ["Streams"]

from typing import Any

import griffe


class Streams(griffe.Extension):
    """Puts what inspection finds in the place of an assignment `name = last_item(...)`."""

    def on_module_members(self, *, mod: griffe.Module, **kwargs: Any) -> None:
        """Looks through the members of a module."""
        for name, member in list(mod.members.items()):
            value = member.value if isinstance(member, griffe.Attribute) else None
            if isinstance(value, griffe.ExprCall) and str(value.function) == "last_item":
                mod.set_member(name, griffe.inspect(mod.path)[name])

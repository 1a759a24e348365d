r"""The part of an event loop that a training needs."""

from typing import Any

Loop = Any

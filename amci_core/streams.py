r"""Computations in parts: a stream of ever better results, and their plain form, its last item."""

from __future__ import annotations

__all__ = ["Stream", "last_item"]

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar, overload

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

PREFIX = "stream_"
# A section of a docstring lasts until the next line that is not indented.
YIELDS = re.compile(r"^Yields:\n(?:(?: .*)?\n)*", re.MULTILINE)


class Stream(Iterator[T]):
    """Creates results that get better part by part.

    Every part is seeded by its number: any process can do any of them, in any order, and merged
    in order they give what this iterator gives.

    Arguments:
        count: Number of parts, at least one.
        part: Does the part of a number.
        merge: Makes a result of the first parts, in their order.

    Attributes:
        count: As above.
        part: As above.
        merge: As above.

    Example:
        >>> stream = Stream(3, lambda number: number**2, sum)
        >>> list(stream), stream.merge([stream.part(i) for i in (0, 1)])
        ([0, 1, 5], 1)
    """

    def __init__(
        self, count: int, part: Callable[[int], Any], merge: Callable[[Sequence[Any]], T]
    ) -> None:
        self.count, self.part, self.merge = count, part, merge
        self._done: list[Any] = []

    def __next__(self) -> T:
        if len(self._done) == self.count:
            raise StopIteration
        self._done.append(self.part(len(self._done)))
        return self.merge(self._done)


@overload
def last_item(stream: Callable[P, Iterator[T]], *, name: str | None = None) -> Callable[P, T]: ...


@overload
def last_item(
    stream: Callable[P, Iterator[T]], *, name: str | None = None, take: Callable[[T], R]
) -> Callable[P, R]: ...


def last_item(
    stream: Callable[P, Iterator[Any]],
    *,
    name: str | None = None,
    take: Callable[[Any], Any] | None = None,
) -> Callable[P, Any]:
    """Makes the function that runs a stream to its end and returns the last item.

    It has the stream's signature with the item in the place of the iterator, and the stream's
    docstring without the section "Yields". Like the stream it checks its arguments at the call.

    Arguments:
        stream: A function that returns an iterator of at least one item, annotated as such.
        name: Name of the function; by default the stream's without `stream_`.
        take: What is returned of the last item, annotated; by default the item.

    Example:
        >>> def stream_squares(n: int) -> Iterator[int]:
        ...     return (i * i for i in range(n))
        >>> squares = last_item(stream_squares)
        >>> squares(4)
        9
    """

    def plain(*args: P.args, **kwargs: P.kwargs) -> Any:
        *_, last = stream(*args, **kwargs)
        return last if take is None else take(last)

    signature = inspect.signature(stream)
    returned = (
        _item(signature.return_annotation)
        if take is None
        else inspect.signature(take).return_annotation
    )
    plain.__name__ = plain.__qualname__ = name or stream.__name__.removeprefix(PREFIX)
    plain.__module__ = stream.__module__
    plain.__doc__ = YIELDS.sub("", inspect.cleandoc(stream.__doc__ or "") + "\n")
    plain.__annotations__ = stream.__annotations__ | {"return": returned}
    setattr(plain, "__signature__", signature.replace(return_annotation=returned))  # noqa: B010
    return plain


def _item(annotation: Any) -> Any:
    """X of Iterator[X] or Stream[X], which is text where annotations are not evaluated."""
    if isinstance(annotation, str):
        return annotation.partition("[")[2].removesuffix("]")
    (item,) = annotation.__args__
    return item

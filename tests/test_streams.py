"""The plain form of a stream: what it returns, and how it presents itself."""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import amci_core as amci
from amci_core import streams
from amci_core.streams import last_item


def stream_squares(n: int, *, start: int = 0) -> Iterator[int]:
    """The last of some squares.

    Arguments:
        n: How many.
        start: The first root.

    Yields:
        One square after the other.

    Raises:
        ValueError: n is below 1.
    """
    if n < 1:
        raise ValueError(f"n: expected at least 1, got {n}")
    return (i * i for i in range(start, start + n))


def half(item: int) -> float:
    return item / 2


def test_the_plain_form_returns_the_last_item():
    squares = last_item(stream_squares)
    assert squares(4) == 9
    assert squares(4, start=2) == 25
    assert last_item(stream_squares, name="halved", take=half)(4) == 4.5
    with pytest.raises(ValueError, match=r"^n: expected at least 1, got 0"):
        squares(0)
    with pytest.raises(TypeError, match="first"):
        squares(4, first=1)


def test_it_presents_itself_as_a_function_of_its_own():
    squares = last_item(stream_squares)
    assert squares.__name__ == squares.__qualname__ == "squares"
    assert squares.__module__ == stream_squares.__module__
    assert inspect.isfunction(squares)
    expected = inspect.signature(stream_squares).replace(return_annotation=int)
    assert inspect.signature(squares) == expected
    assert squares.__annotations__ == {"n": int, "start": int, "return": int}
    text = inspect.getdoc(stream_squares)
    assert inspect.getdoc(squares) == text.replace(
        "Yields:\n    One square after the other.\n\n", ""
    )
    halved = last_item(stream_squares, name="halved", take=half)
    assert inspect.signature(halved).return_annotation is float


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("error_curves", "ErrorCurves"),
        ("reuse_errors", "ReuseErrors"),
        ("amortization_map", "AmortizationMap"),
    ],
)
def test_public_functions_have_the_signature_of_their_stream(name, result):
    plain, stream = getattr(amci, name), getattr(amci, f"stream_{name}")
    found, expected = inspect.signature(plain), inspect.signature(stream)
    assert list(found.parameters.values()) == list(expected.parameters.values())
    assert found.return_annotation == result
    assert "Arguments:" in plain.__doc__
    assert "Raises:" in plain.__doc__
    assert f"`{name}`" in stream.__doc__


@pytest.mark.slow
def test_type_checkers_see_the_item(tmp_path):
    (tmp_path / "streams.py").write_text(Path(streams.__file__).read_text())
    (tmp_path / "use.py").write_text(
        "from collections.abc import Iterator\n"
        "from streams import last_item\n"
        "def stream_squares(n: int, *, start: int = 0) -> Iterator[int]: ...\n"
        "def half(item: int) -> float: ...\n"
        "reveal_type(last_item(stream_squares))\n"
        "reveal_type(last_item(stream_squares, take=half)(3))\n"
        "last_item(stream_squares)(first=3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "use.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert 'Revealed type is "def (n: int, *, start: int =) -> int"' in done.stdout
    assert 'Revealed type is "float"' in done.stdout
    assert 'Unexpected keyword argument "first"' in done.stdout

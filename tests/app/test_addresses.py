"""Whatever an address says, there is a page, and what it says of it is short."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, quote_from_bytes

import numpy as np
import pytest
from bokeh.document import Document
from panel.io.state import set_curdoc

from amci_core.proposals import available_variants
from app.explorer import Explorer
from app.guard import decoded
from app.shell import page
from app.state import LIMITS, State

NAMES = ["problem", "y", "theta", "variant", "draws", "runs", "seed", "nonsense", "ui", ""]
VALUES = [
    *[
        "",
        "0",
        "-1",
        "1e999",
        "nan",
        "inf",
        "-inf",
        "1,2,3",
        ",",
        "1,",
        "٣",
        "0x10",
        "1_000",
        "NaN",
    ],
    *["tail-1d", "tail-5d", "cancer", "gain-loss", "peak", "spline", "oracle", "../../etc/passwd"],
    *["<img src=x onerror=alert(1)>", "javascript:alert(1)", "{{7*7}}", "%s%n", "\x00", "\u202e"],
    *[
        "9" * 400,
        "1" * 10_000,
        "1," * 5_000,
        "é" * 3_000,
        "😀",
        "a&b=c",
        "True",
        "None",
        "[]",
        "{}",
    ],
]
LONGEST_MESSAGE = 300


def queries(n: int) -> list[str]:
    """Random query strings, percent-encoded as a browser sends them."""
    rng = random.Random(0)

    def value() -> bytes:
        kind = rng.random()
        if kind < 0.6:
            return rng.choice(VALUES).encode()
        if kind < 0.8:
            return rng.randbytes(rng.choice([1, 5, 40, 10_000]))
        return f"{rng.uniform(-10, 10) * 10 ** rng.randint(-300, 300):.17g}".encode()

    return [
        "&".join(
            f"{rng.choice(NAMES)}={quote_from_bytes(value())}" for _ in range(rng.randint(1, 6))
        )
        for _ in range(n)
    ]


def given(query: str) -> dict[str, str]:
    """What the page is given of a query string, as the server reads it."""
    arguments = parse_qs(query, keep_blank_values=True, encoding="latin-1")
    return decoded({name: [v.encode("latin-1") for v in vs] for name, vs in arguments.items()})


def test_any_address_gives_a_point_to_compute_for_and_short_messages():
    for query in queries(500):
        state = State()
        wrong = state.read_query(given(query))
        problem, choice = state.problem, state.choice
        for variable, point in ((problem.y, choice.y), (problem.theta, choice.theta)):
            assert len(point) == (variable.dim if variable else 0)
            for value in point:
                assert variable.usual_range[0] <= value <= variable.usual_range[1]
        for name, (low, high) in LIMITS.items():
            assert low <= getattr(choice, name) <= high
        assert choice.variant in available_variants(problem.name)
        for name, message in wrong.items():
            assert name in given(query)
            assert 0 < len(message) <= LONGEST_MESSAGE, message
        # The address that the page then has leads to the same point.
        again = State()
        assert again.read_query(state.query()) == {}
        np.testing.assert_allclose(again.choice.y, choice.y, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:Both 'variant':PendingDeprecationWarning")
def test_a_page_is_built_for_any_address():
    async def build() -> None:
        for query in queries(500)[::100]:
            document = Document()
            with set_curdoc(document):
                explorer = Explorer(document, given(query))
                page(explorer, document)
            explorer.close(None)

    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(asyncio.run, build()).result()

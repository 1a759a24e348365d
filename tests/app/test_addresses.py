"""Whatever an address says, there is a case, and what is said of it is short."""

import random
from urllib.parse import parse_qs, quote_from_bytes, urlencode

from amci_explorer.state.case import CHOICES, Case
from amci_explorer.state.links import decoded

NAMES = ["problem", "y", "theta", *CHOICES, "nonsense", "ui", "f", ""]
VALUES = [
    *("", "0", "-1", "1e999", "nan", "inf", "-inf", "1,2,3", ",", "1,", "٣", "0x10", "1_000"),
    *("tail-1d", "tail-5d", "cancer", "gain-loss", "peak", "spline", "oracle", "../../etc/passwd"),
    *("<img src=x onerror=alert(1)>", "javascript:alert(1)", "{{7*7}}", "%s%n", "\x00", "\u202e"),
    *("9" * 400, "1" * 10_000, "1," * 5_000, "é" * 3_000, "😀", "a&b=c"),
    *("NaN", "True", "None", "[]", "{}"),
]
LONGEST_MESSAGE, LONGEST_LINK = 300, 1000


def addresses(n):
    """Random query strings, percent-encoded as a browser sends them, as the server reads them."""
    rng = random.Random(0)

    def value():
        kind = rng.random()
        if kind < 0.6:
            return rng.choice(VALUES).encode()
        if kind < 0.8:
            return rng.randbytes(rng.choice([1, 5, 40, 10_000]))
        return f"{rng.uniform(-10, 10) * 10 ** rng.randint(-300, 300):.17g}".encode()

    for _ in range(n):
        count = rng.randint(1, 6)
        query = "&".join(f"{rng.choice(NAMES)}={quote_from_bytes(value())}" for _ in range(count))
        arguments = parse_qs(query, keep_blank_values=True, encoding="latin-1")
        yield decoded({name: [v.encode("latin-1") for v in vs] for name, vs in arguments.items()})


def test_any_address_gives_a_point_to_compute_for_and_short_messages():
    for given in addresses(60):
        case = Case()
        wrong = case.read(given)
        problem = case.problem
        for variable, point in ((problem.y, case.y), (problem.theta, case.theta)):
            assert len(point) == (variable.dim if variable else 0)
            for value in point:
                assert variable.typical_range[0] <= value <= variable.typical_range[1]
        for name in CHOICES:
            low, high = getattr(Case.param[name], "bounds", None) or (None, None)
            assert low is None or low <= getattr(case, name) <= high
        assert case.variant in case.options("variant")
        for name, message in wrong.items():
            assert name in given
            assert 0 < len(message) <= LONGEST_MESSAGE, message
        # What the page then writes into the address leads to the same case.
        link, again = case.link(), Case()
        assert len(urlencode(link)) < LONGEST_LINK
        assert again.read(link) == {}
        assert again.as_json() == case.as_json()

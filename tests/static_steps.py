"""A tour for tests of the page without a server: two live steps and two with stored pictures."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    name: str
    title: str
    text: str
    light: str = "densities"
    question: str = ""
    answer: str = ""
    state: dict = field(default_factory=dict)


TAIL = {"problem": "tail-1d", "y": [1.0], "theta": [3.0]}
STEPS = (
    Step(
        "rare",
        "A rare event",
        "Little of it lies above $\\theta$: x > θ & no more.\n\nDrag the handle.",
        question="How many draws?",
        answer="One in 4,900.",
        state=TAIL,
    ),
    Step("needle", "A needle", "It is sharp.", state={"problem": "peak", "theta": [0.3, 0.7, 1]}),
    Step("sharing", "Sharing", "It is careless.", "reuse", state={**TAIL, "beta": 0.5}),
    Step(
        "paper",
        "The paper's proposals",
        "They were not trained here.",
        "diagnostics",
        # As links have it.
        state={"problem": "tail-1d", "y": "-4.0", "theta": "5.0", "variant": "paper"},
    ),
)

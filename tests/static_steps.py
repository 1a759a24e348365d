"""A tour for tests of the page without a server: two live steps and two with stored pictures."""

from amci_explorer.problems.presets import Stop

TAIL = {"problem": "tail-1d", "y": "1.0", "theta": "3.0"}
STEPS = (
    Stop(
        name="rare",
        title="A rare event",
        text="Little of it lies above $\\theta$: x > θ & no more.\n\nDrag the handle.",
        light="densities",
        question="How many draws?",
        answer="One in 4,900.",
        link=TAIL,
    ),
    Stop(
        name="needle",
        title="A needle",
        text="It is sharp.",
        light="densities",
        link={"problem": "peak", "theta": "0.3,0.7,1"},
    ),
    Stop(
        name="sharing",
        title="Sharing",
        text="It is careless.",
        light="reuse",
        link={**TAIL, "beta": "0.5"},
    ),
    Stop(
        name="paper",
        title="The paper's proposals",
        text="They were not trained here.",
        light="diagnostics",
        link={"problem": "tail-1d", "y": "-4.0", "theta": "5.0", "variant": "paper"},
    ),
)

r"""One colour and one dash per thing shown, the same in every picture, in light and in dark.

The colours are those of Okabe and Ito, which people with any colour vision can tell apart,
lightened where a dark page asks for it. A proposal has the colour of the estimator that uses it
alone, what it should look like is grey.
"""

from __future__ import annotations

__all__ = ["ESTIMATORS", "PLAIN", "SHAPES", "SWEPT", "YOURS", "Style"]

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How one thing is drawn.

    Arguments:
        label: Its name in legends.
        light: Its colour on a light page.
        dark: Its colour on a dark page.
        dash: Lengths of strokes and gaps in pixels; empty for a solid line.
        short: Its name where there is little room; empty for the same.
    """

    label: str
    light: str
    dark: str
    dash: tuple[int, ...] = ()
    short: str = ""

    def colour(self, dark: bool) -> str:
        """The colour on a page of that theme."""
        return self.dark if dark else self.light


# On white each has a contrast of 4.5 or more, as words beside a line need.
ESTIMATORS = {
    "amci": Style("AMCI", "#7b3fb0", "#c4a0f2"),
    "amci-cv": Style("AMCI + control variates", "#0064a8", "#56b4e9", (5, 3), "AMCI-CV"),
    "snis-q2": Style("SNIS q₂", "#c2500a", "#ff8a3d", (2, 3)),
    "snis-qm": Style("SNIS qₘ", "#007a57", "#2fcf9f", (12, 3, 2, 3)),
    "snis-qm-stratified": Style(
        "SNIS qₘ stratified", "#7a6200", "#e6c84f", (8, 3), "qₘ stratified"
    ),
    "snis-q1": Style("SNIS q₁", "#b0407f", "#e59bc7", (6, 2, 2, 2)),
    "bound": Style("one-proposal bound", "#404040", "#d0d0d0", (9, 6), "bound"),
}
# Those of sweeps over cases, the bound last.
SWEPT = {n: style for n, style in ESTIMATORS.items() if n != "amci-cv"}
# Plain importance sampling, where E2 is known: from the prior, from the problem's reference.
PLAIN = {
    "prior": Style("draws from the prior", "#c2500a", "#ff8a3d", (2, 3), "prior"),
    "reference": Style("IS from the reference", "#007a57", "#2fcf9f", (12, 3, 2, 3), "reference"),
}
ESTIMATORS |= PLAIN

# The case or the point that the user has chosen, among others.
YOURS = Style("yours", "#e8000b", "#ff6b6b")

SHAPES = {
    "q1": ESTIMATORS["snis-q1"],
    "q1_minus": Style("q₁⁻", "#8f6f00", "#e6c84f", (8, 3)),
    "q2": ESTIMATORS["snis-q2"],
    "q1_complement": Style("q₁ᶜ", "#007f86", "#45d3da", (1, 3)),
    "target": Style("target", "#5a6570", "#aab4be"),
    "posterior": Style("posterior", "#9aa4ae", "#6f7a85"),
    "measured": Style("measured", "#0064a8", "#56b4e9"),
    "threshold": Style("threshold θ", "#404040", "#e0e0e0", (4, 4)),
}

r"""One colour and one dash per estimator, the same in every picture.

The colours are those of Okabe and Ito, which people with any colour vision can tell apart.
"""

from __future__ import annotations

__all__ = ["ESTIMATORS", "Style"]

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


ESTIMATORS = {
    "amci": Style("AMCI", "#0072b2", "#56b4e9"),
    "amci-cv": Style("AMCI + control variates", "#6a4bb0", "#bba4f2", (5, 3), "AMCI-CV"),
    "snis-q2": Style("SNIS q₂", "#d55e00", "#ff8a3d", (2, 3)),
    "snis-qm": Style("SNIS qₘ", "#008a63", "#2fcf9f", (12, 3, 2, 3)),
    "snis-qm-stratified": Style("SNIS qₘ stratified", "#7a6200", "#e6c84f", (8, 3)),
    "snis-q1": Style("SNIS q₁", "#b0508a", "#e59bc7", (6, 2, 2, 2)),
    "bound": Style("one-proposal bound", "#404040", "#d0d0d0", (9, 6)),
}

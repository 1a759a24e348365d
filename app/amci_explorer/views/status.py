r"""How far a computation is: a bar while it goes on, and words."""

from __future__ import annotations

__all__ = ["Status"]

from html import escape

from amci_explorer.views.layout import HTML

# Longer words lie on what is above them for as long as they are there.
STYLE = """
:host { display: flex !important; flex-direction: column; justify-content: flex-end; z-index: 1; }
p { margin: 0; font-size: var(--small); line-height: 1.2; font-variant-numeric: tabular-nums;
    background: var(--paper); color: var(--muted); text-align: right; }
progress { display: block; width: 100%; height: 3px; appearance: none; border: 0; }
progress, ::-webkit-progress-bar { background: var(--line); }
::-webkit-progress-value { background: var(--accent); }
::-moz-progress-bar { background: var(--accent); }
progress.still { visibility: hidden; }
"""


class Status(HTML):
    """Creates the status of a card, with nothing to say.

    Arguments:
        card: The card's name.
        bar: What the bar is called; without a name there is none.
    """

    def __init__(self, card: str, bar: str) -> None:
        super().__init__("", STYLE, styles={"flex": "0 1 auto", "min-width": "160px"})
        self._card, self._bar = card, bar
        self.say("")

    def say(self, words: str, share: float | None = None, *, alert: bool = False) -> None:
        """Shows words, as an alert if something is wrong; and how much there is, from 0 to 1."""
        how = 'class="still"' if share is None else f'value="{share:.2f}"'
        bar = f'<progress {how} aria-label="{self._bar}"></progress>' if self._bar else ""
        role = ' role="alert"' if alert else ""
        # What is counted while it goes on would be read out without an end.
        spoken = {"aria-live": "polite", "aria-busy": str(share is not None).lower()}
        text = f'<p data-card="{self._card}"{role}>{escape(words)}</p>{bar}'
        self.param.update(object=text, html_attributes=spoken)

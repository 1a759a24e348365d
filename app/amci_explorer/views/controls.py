r"""The controls: they change the state, and follow it.

Above the pictures stand the problem and its presets, beside them the handles of the case, and
below those, folded away, what is rarely used.
"""

from __future__ import annotations

__all__ = ["Controls"]

import random
from collections.abc import Callable
from functools import partial
from html import escape
from itertools import zip_longest
from typing import Any

from amci_explorer.problems import registry
from amci_explorer.problems.presets import Preset, presets
from amci_explorer.server.session import callback
from amci_explorer.state.fields import FIELDS, problem_names
from amci_explorer.state.state import State
from amci_explorer.views.bound import CaseControls, bound
from amci_explorer.views.film import FilmView
from amci_explorer.views.inputs import CountField, Message, flat_button, select
from amci_explorer.views.layout import HTML, NOTE, ON_SCREEN, column, hide, row, sections
from amci_explorer.views.style import FADE, LOW, NARROW
from amci_explorer.views.target import TargetControls
from amci_explorer.words.own import about_warnings, note
from amci_explorer.words.settings import about_reference

COUNTS = {
    "draws": ("Draws per proposal", "Draws from each proposal in one run."),
    "runs": ("Runs", "Independent repetitions from which errors are computed."),
    "seed": ("Seed", "The same seed gives the same draws."),
}
# The handles stand beside the pictures that they move; where there is no room for that, in a bar
# at the bottom that stays in sight. In a low window that shows one row, and the rest by scrolling.
HANDLES = f"""
@media {NARROW} {{
  :host {{ position: fixed !important; inset: auto 0 0 0; z-index: 20; max-height: 45vh !important;
          overflow-y: auto; display: grid !important; gap: 0 16px !important;
          grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
          padding: 6px 12px calc(6px + env(safe-area-inset-bottom)); box-sizing: border-box;
          background: var(--paper); border-top: 1px solid var(--line);
          box-shadow: 0 -2px 10px rgb(0 0 0 / 20%); }}
  :host > .later {{ order: 1; }}
}}
@media {NARROW} and {LOW} {{ :host {{ max-height: 68px !important; }} }}
"""
# Presets in a line beside the problem; where that is too long one pushes it sideways.
TOP = """
:host { flex-wrap: nowrap !important; }
:host > div:first-of-type { flex: none !important; width: 290px !important; }
@media (max-width: 599.95px) { :host > div:first-of-type { width: 210px !important; } }
"""
CHIPS = f"""
:host {{ flex: 1 1 0 !important; width: auto !important; min-width: 0; overflow-x: auto !important;
        flex-wrap: nowrap !important; scrollbar-width: none; padding: 3px 40px 3px 3px;
        box-sizing: border-box; mask-image: {FADE}; }}
:host > * {{ flex: none; white-space: nowrap; max-width: none !important; }}
"""


class Controls:
    """Creates the controls of one session; `open` fills in those of a problem.

    Arguments:
        state: What they change.
        film: The training film's player, which is one of them.
        about: What the problem is.
        downloads: What can be downloaded.
        choose: Called with a preset that the user goes to.
    """

    def __init__(
        self,
        state: State,
        film: FilmView,
        *,
        about: Any,
        downloads: list[Any],
        choose: Callable[[Preset], Any],
    ) -> None:
        self._state, self._choose = state, choose
        self._messages = {name: Message() for name in ("problem", "variant", "else")}
        names = problem_names()
        titles = {title: name for name, title in names.items()}
        self.problem = select("Problem", titles, value=state.original, margin=0)
        self.problem.param.watch(callback(self._chose_problem), "value")
        self.target = TargetControls(state)
        # Findings of the check of a user's problem, and warnings about its proposals.
        self._warned, self._note = (HTML("", NOTE, "p { padding-top: 4px; }") for _ in range(2))
        self.case = CaseControls(state, HANDLES)
        # As many buttons as the problem with most presets has: to name them anew takes page and
        # server less time than to exchange them.
        most = max(len(presets(registry.problem(name))) for name in names)
        self._presets = [
            flat_button("", partial(self._chose_preset, i), chip=True) for i in range(most)
        ]
        self.counts = {name: CountField(state, name, *text) for name, text in COUNTS.items()}
        self._steps = [flat_button("Back", lambda _: state.go(-1))]
        self._steps += [flat_button("Forward", lambda _: state.go(1))]
        self._compare = flat_button("", lambda _: state.compare(not state.compared))
        self._reference = HTML("", NOTE)
        proposals = bound(state, "variant", "Proposals", sizing_mode="stretch_width")
        self._sections = {
            "problem": ("The problem", about),
            "proposals": ("Proposals", column(proposals, self._messages["variant"], gap=8)),
            "counts": (
                "Draws, runs, seed",
                column(*self.counts.values(), flat_button("Resample", self._resample), gap=8),
            ),
            "film": ("Training film", column(*film.parts, gap=8)),
            "own-f": ("Your own f", column(self.target.panel, gap=8)),
            "downloads": ("Download", column(*downloads, gap=8)),
        }
        self._accordion = sections(*self._sections.values())
        # What a tour lights up.
        self.parts = {"handles": self.case.panel} | dict.fromkeys(
            ("film", "own-f", "proposals"), self._accordion
        )
        state.param.watch(lambda *_: self._show_steps(), "committed")
        state.param.watch(lambda *_: self._show_note(), ["problem", "variant"])
        state.param.watch(lambda *_: self.case.show(), ["y", "theta", "level"])
        self._show_steps()
        self.top = column(
            row(
                self.problem,
                row(*self._presets, gap=6, stylesheet=CHIPS + ON_SCREEN),
                gap=8,
                stylesheet=TOP,
            ),
            self._messages["problem"],
            self._warned,
            self._note,
        )
        self.side = column(
            self.case.panel,
            row(*self._steps, flat_button("Reset", lambda _: state.reset()), gap=8),
            self._compare,
            self._reference,
            self._messages["else"],
            self._accordion,
            gap=8,
        )

    def unfold(self, name: str, *, only: bool = True) -> None:
        """Unfolds a section, and folds the others if it is to be the only one."""
        names = list(self._sections)
        active = [names.index(name)] if name in names else []
        self._accordion.active = active if only else sorted({*self._accordion.active, *active})

    def open(self) -> None:
        """Takes the handles and presets of the state's problem."""
        state = self._state
        if self.case.problem is not state.problem:
            self.case.open()
        for button, preset in zip_longest(self._presets, presets(state.problem)):
            button.label = preset.name if preset else ""
            hide(button, preset is None)
        self.problem.value = state.original
        self.target.open()
        self._warned.object = about_warnings(registry.warnings(state.original))
        self._show_note()
        for message in self._messages.values():
            message.say()

    def complain(self, wrong: dict[str, str]) -> None:
        """Says beside each control what is wrong with what was asked of it."""
        folded = {"variant": "proposals", "f": "own-f"} | dict.fromkeys(self.counts, "counts")
        for name, text in wrong.items():
            if name in folded:
                self.unfold(folded[name], only=False)
            if name in self.counts:
                self.counts[name].complain(text)
            elif name == "f":
                self.target.complain(text)
            elif name in ("y", "theta"):
                self.case.complain(name, text)
            elif name in self._messages:
                self._messages[name].say(text)
            else:
                self._messages["else"].say(f"{name}: {text}")

    def _show_steps(self) -> None:
        state = self._state
        for button, can in zip(self._steps, state.can_go, strict=True):
            button.disabled = not can
        self._compare.label = "Stop comparing" if state.compared else "Pin as A to compare"
        reference = None if state.reference is None else state.reference.settings
        self._reference.object = f"<p>{escape(about_reference(reference, state.settings))}</p>"

    def _show_note(self) -> None:
        """Says below the problem what its proposals were not trained for."""
        text = note(self._state.problem.name, self._state.variant)
        self._note.object = f'<p role="status">{escape(text)}</p>' if text else ""

    def _chose_problem(self, event: Any) -> None:
        if event.new != self._state.original:
            self._state.open(event.new)
            self._state.commit()

    def _chose_preset(self, i: int, _: Any) -> None:
        # A click may come after the problem has changed to one with fewer.
        for preset in presets(self._state.problem)[i : i + 1]:
            self._choose(preset)

    def _resample(self, _: Any) -> None:
        low, high = FIELDS["seed"].bounds or (0, 1)
        self._state.set(seed=random.SystemRandom().randrange(int(low), int(high)))
        self._state.commit()

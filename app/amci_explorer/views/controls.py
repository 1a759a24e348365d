r"""The controls: they change the case, and follow it.

Above the pictures stand the problem and its presets, beside them the handles of the case, and
below those, folded away, what is rarely used.
"""

from __future__ import annotations

__all__ = ["Controls"]

from html import escape
from typing import Any

import numpy as np
import panel_material_ui as pmui

from amci_explorer.problems import registry
from amci_explorer.problems.presets import preset_at, presets
from amci_explorer.server.session import callback
from amci_explorer.state.case import Case
from amci_explorer.views.bound import CountField, bound, tie
from amci_explorer.views.handles import CaseControls
from amci_explorer.views.inputs import UNSEEN_LABEL, Message, flat_button, select
from amci_explorer.views.layout import HTML, NOTE, ON_SCREEN, column, hide, row, sections
from amci_explorer.views.style import FADE
from amci_explorer.views.target import TargetControls
from amci_explorer.words.settings import about_reference, about_warnings, note

# The error curves of a checkpoint take a while to come.
MILLISECONDS_A_CHECKPOINT = 2500
TOP = """
:host { flex-wrap: nowrap !important; align-items: flex-start !important; }
:host > div:first-of-type { flex: none !important; width: 290px !important; }
@media (max-width: 599.95px) { :host > div:first-of-type { width: 210px !important; } }
"""
TRY = "p { margin: 0; font-size: var(--small); line-height: 36px; color: var(--muted); }"
# Presets in as many lines as they need if the window is high; else one pushes them sideways.
ROOMY = "(min-width: 1100px) and (min-height: 760px)"
CHIPS = f"""
.MuiToggleButtonGroup-root {{ gap: 4px 6px; padding: 3px; width: auto; overflow-x: auto;
  scrollbar-width: none; }}
.MuiToggleButtonGroup-root .MuiToggleButton-root {{
  flex: none; width: auto; margin: 0; padding: 1px 8px; border: 1px solid var(--line) !important;
  border-radius: 16px !important; color: var(--accent); text-transform: none;
  white-space: nowrap; }}
.MuiToggleButtonGroup-root .MuiToggleButton-root[aria-pressed=true] {{
  color: var(--paper); background-color: var(--accent); }}
@media {ROOMY} {{ .MuiToggleButtonGroup-root {{ flex-wrap: wrap; overflow: visible; }} }}
@media not all and {ROOMY} {{
  .MuiToggleButtonGroup-root {{ padding-right: 40px; mask-image: {FADE}; }} }}
{UNSEEN_LABEL}"""
FILLING = ":host { flex: 1 1 0 !important; width: auto !important; min-width: 0; }"


class Controls:
    """Creates the controls of one session; `open` fills in those of a problem.

    Arguments:
        state: What they change.
        about: What the problem is.
        downloads: What can be shared and downloaded.
    """

    def __init__(self, state: Case, *, about: Any, downloads: list[Any]) -> None:
        self._state = state
        self._messages = {name: Message() for name in ("problem", "variant", "else")}
        self.problem = select("Problem", _problem_titles(), value=state.original, margin=0)
        self.problem.param.watch(callback(self._chose_problem), "value")
        looks: dict[str, Any] = {"size": "small", "margin": 0, "stylesheets": [CHIPS]}
        self.chips = pmui.CheckButtonGroup(label="Presets", options={"": 0}, **looks)
        self.chips.param.watch(callback(self._chose_preset), "value")
        self.target = TargetControls(state)
        self.case = CaseControls(state)
        # Findings of the check of a user's problem, and warnings about its proposals.
        self._warned, self._note = (HTML("", NOTE, "p { padding-top: 4px; }") for _ in range(2))
        self._steps = [flat_button("Back", lambda _: state.go(-1))]
        self._steps += [flat_button("Forward", lambda _: state.go(1))]
        self._compare = flat_button("", lambda _: state.compare(not state.compared))
        self._reference = HTML("", NOTE)
        self.counts = {name: CountField(state, name) for name in ("draws", "runs", "seed")}
        wide: dict[str, Any] = {"sizing_mode": "stretch_width"}
        player = pmui.DiscretePlayer(
            label="Training history",
            interval=MILLISECONDS_A_CHECKPOINT,
            loop_policy="once",
            show_loop_controls=False,
            visible_buttons=["first", "previous", "pause", "play", "next"],
            **wide,
        )
        self._training = tie(state, "snapshot", player)
        variant = bound(state, "variant", "Proposals", **wide)
        resample = flat_button("Resample", self._resample)
        self._sections = {
            "problem": ("The problem", [about]),
            "proposals": ("Proposals", [variant, self._messages["variant"], self._training]),
            "counts": ("Draws, runs, seed", [*self.counts.values(), resample]),
            "own-f": ("Your own f", [self.target.panel]),
            "compare": ("Compare", [self._compare, self._reference]),
            "downloads": ("Share and download", downloads),
        }
        named = self._sections.values()
        self._accordion = sections(*((title, column(*parts, gap=8)) for title, parts in named))
        # What a tour lights up.
        folded = dict.fromkeys(("own-f", "proposals"), self._accordion)
        self.parts = {"handles": self.case.panel, **folded}
        state.param.watch(lambda *_: self._follow(), ["committed", "variant"])
        self._try = HTML("<p aria-hidden='true'>Try</p>", TRY, sizing_mode=None)
        self.top = column(
            row(
                self.problem,
                self._try,
                column(self.chips, stylesheet=FILLING),
                gap=8,
                stylesheet=TOP + ON_SCREEN,
            ),
            self._messages["problem"],
            self._warned,
            self._note,
        )
        self.side = column(
            self.case.panel,
            self._messages["else"],
            self._accordion,
            row(*self._steps, flat_button("Reset", lambda _: state.reset()), gap=8),
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
        self.problem.value = state.original
        self.target.open()
        self._warned.object = about_warnings(registry.warnings(state.original))
        for message in self._messages.values():
            message.say()
        self._follow()

    def complain(self, wrong: dict[str, str]) -> None:
        """Says beside each control what is wrong with what an address asked of it."""
        folds = {"variant": "proposals", "f": "own-f"} | dict.fromkeys(self.counts, "counts")
        fields = {"f": self.target.field, **self.counts}
        messages = {**self.case.messages, **self._messages}
        for name, text in wrong.items():
            if name in folds:
                self.unfold(folds[name], only=False)
            if name in fields:
                fields[name].complain(text)
            elif name in messages:
                messages[name].say(text)
            else:
                messages["else"].say(f"{name}: {text}")

    def _follow(self) -> None:
        state = self._state
        for button, can in zip(self._steps, state.can_go, strict=True):
            button.disabled = not can
        self._compare.label = "Stop comparing" if state.compared else "Keep this case as A"
        reference = None if state.reference is None else state.reference.settings
        self._reference.object = f"<p>{escape(about_reference(reference, state.settings))}</p>"
        # What the proposals of this case were not trained for.
        text = note(state.problem.name, state.variant)
        self._note.object = f'<p role="status">{escape(text)}</p>' if text else ""
        hide(self._training, len(state.options("snapshot")) < 2 or state.variant != "spline")
        self._show_presets()

    def _show_presets(self) -> None:
        here = presets(self._state.problem)
        at = preset_at(self._state.link())
        hide(self._try, not here)
        self.chips.param.update(
            options={preset.name: i for i, preset in enumerate(here)},
            value=[i for i, preset in enumerate(here) if preset is at],
        )

    def _chose_problem(self, event: Any) -> None:
        if event.new != self._state.original:
            self._state.open(event.new)
            self._state.commit()

    def _chose_preset(self, event: Any) -> None:
        here = presets(self._state.problem)
        for i in set(event.new) - set(event.old):
            if i < len(here) and here[i] is not preset_at(self._state.link()):
                self._state.visit(here[i].link)
        # One of them at most is pressed, also if it was pressed again.
        self._show_presets()

    def _resample(self, _: Any) -> None:
        self._state.set(seed=int(np.random.default_rng().integers(2**31)))
        self._state.commit()


def _problem_titles() -> dict[str, str]:
    """The problems that there are proposals for: titles and names."""
    titles: dict[str, str] = {}
    for name in registry.problems():
        title = registry.problem(name).title or name
        titles[f"{title} ({name})" if title in titles else title] = name
    return titles

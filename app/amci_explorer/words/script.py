r"""The figures of the summary as a Python script."""

from __future__ import annotations

__all__ = ["script"]

from amci_explorer.problems import registry, session_proposals
from amci_explorer.problems.settings import Settings

SCRIPT = """\
# One run of every estimator{about}, as AMCI Explorer shows it.
import amci_core as amci
from amci_core.evaluation.runs import default_estimators
{imports}
problem = {problem}
proposals = {proposals}
y, theta = {y}, {theta}
total = {draws} * len(proposals.present)
draws = max(round(total * 8 / 7), total + 4)  # with those of the defensive density
for name in ("amci", "amci-cv", *default_estimators(problem, proposals)[1:]):
    if name == "bound":
        continue
    found = amci.estimate(
        problem, proposals, y, theta, draws=draws, estimator=name, seed={seed}
    )
    print(f"{{name}}: {{found}}")
"""


def script(choice: Settings) -> str:
    """A Python script that prints what the summary shows for a choice."""
    y, theta = choice.pair
    about = ", ".join(f"{n} = {v}" for n, v in (("y", y), ("theta", theta)) if v is not None)
    imports, problem, proposals = _made(*registry.split(choice.problem), choice.variant)
    if choice.snapshot is not None:
        proposals = f"amci.load_history({choice.problem!r})[{choice.snapshot}].proposals"
    return SCRIPT.format(
        about=about and f" at {about}",
        imports=imports,
        problem=problem,
        proposals=proposals,
        y=y,
        theta=theta,
        draws=choice.draws,
        seed=choice.seed,
    )


def _made(name: str, f: str, variant: str) -> tuple[str, str, str]:
    """Lines ahead of the others, and how the problem and its proposals come about."""
    ahead, problem = "", f"amci.problem({name!r})"
    mine = registry.OWN.get(name)
    if mine is not None and mine.file:
        problem = f"amci.load_problem({mine.file!r})"
    elif mine is not None:
        ahead = f"# {registry.FILES} in the environment names the problem's file.\n"
        ahead += "from amci_explorer.problems import registry\n"
        problem = f"registry.problem({name!r})"
    of = repr(name) if mine is None else "problem.original" if f else "problem"
    wanted = registry.variants(name)[0] if f else variant
    proposals = f"amci.load_proposals({of}, variant={wanted!r})"
    if mine is not None and wanted in mine.folders:
        proposals = f"amci.load_proposals({of}, folder={mine.folders[wanted]!r})"
    elif mine is not None and not mine.file:
        proposals = f"registry.proposals({name!r}, {wanted!r})"
    whole = name if not f else registry.target_name(name, f)
    if session_proposals.parcel(whole, variant) is not None:
        ahead += f"# The folder that these proposals were saved to, once learnt: {variant!r}.\n"
        proposals = f"amci.load_proposals({'problem' if f else of}, folder={variant!r})"
    elif f:
        proposals = f"amci.fallback_proposals(problem, {proposals})"
    if f:
        problem = f"amci.with_target({problem}, {f!r})"
    return ahead, problem, proposals

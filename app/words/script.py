r"""The figures of the strip as a script of one's own."""

from __future__ import annotations

__all__ = ["script"]

from app import own
from app.choice import Choice

SCRIPT = """\
# One run of every estimator at {about}, as AMCI Explorer shows it.
{imports}import amci_core as amci
from amci_core.errors.runs import usual_estimators
from amci_core.estimators import ESTIMATORS

problem = {problem}
proposals = {proposals}
y, theta = {y}, {theta}
total = {draws} * len(proposals.present)
for name in usual_estimators(problem, proposals):
    if name == "bound":
        continue
    draws = total // len(ESTIMATORS[name].used(proposals.present))
    found = amci.estimate(
        problem, proposals, y, theta, draws=draws, estimator=name, seed={seed}
    )
    print(f"{{name:8}} {{float(found.value):.4g}} ± {{float(found.standard_error):.2g}}")
"""


def script(choice: Choice) -> str:
    """A Python script that prints what the strip shows for a choice."""
    y, theta = choice.pair
    about = ", ".join(f"{n} = {v}" for n, v in (("y", y), ("theta", theta)) if v is not None)
    imports, problem = "", f"amci.problem({choice.problem!r})"
    proposals = f"amci.load_proposals({choice.problem!r}, variant={choice.variant!r})"
    if choice.problem in own.OWN:
        imports = f"# {own.FILES} in the environment names the problem's file.\n"
        imports += "from app import own\n"
        problem = f"own.problem({choice.problem!r})"
        proposals = f"own.proposals({choice.problem!r}, {choice.variant!r})"
    if choice.snapshot is not None:
        proposals = f"amci.load_snapshots({choice.problem!r})[{choice.snapshot}].proposals"
    return SCRIPT.format(
        about=about,
        imports=imports,
        problem=problem,
        proposals=proposals,
        y=y,
        theta=theta,
        draws=choice.draws,
        seed=choice.seed,
    )

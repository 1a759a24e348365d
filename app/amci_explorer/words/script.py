r"""The figures of the summary as a Python script."""

from __future__ import annotations

__all__ = ["script"]

from amci_explorer.problems import registry, session_proposals
from amci_explorer.problems.settings import Settings

SCRIPT = """\
# One run of every estimator{about}, as AMCI Explorer shows it.
import amci_core as amci
from amci_core.evaluation.runs import default_estimators
{ahead}
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


def script(settings: Settings) -> str:
    """A Python script that prints what the summary shows."""
    y, theta = settings.pair
    about = ", ".join(f"{n} = {v}" for n, v in (("y", y), ("theta", theta)) if v is not None)
    name, f = registry.split(settings.problem)
    variant, own = settings.variant, registry.OWN.get(name)
    ahead, problem, of = "", f"amci.problem({name!r})", repr(name)
    if own is not None:
        of = "problem.original" if f else "problem"
        problem = f"amci.load_problem({own.file!r})"
        if not own.file:
            ahead = f"# {registry.FILES} in the environment names the problem's file.\n"
            ahead += "from amci_explorer.problems import registry\n"
            problem = f"registry.problem({name!r})"
    if settings.snapshot is not None:
        proposals = f"amci.load_history({settings.problem!r})[{settings.snapshot}].proposals"
    elif session_proposals.parcel(settings.problem, variant) is not None:
        ahead += "# The folder of the page's download, unpacked.\n"
        proposals = f"amci.load_proposals({'problem' if f else of}, folder={variant!r})"
    else:
        variant = registry.variants(name)[0] if f else variant
        where = f"variant={variant!r}"
        if own is not None and variant in own.folders:
            where = f"folder={own.folders[variant]!r}"
        proposals = f"amci.load_proposals({of}, {where})"
        if own is not None and not own.file and variant not in own.folders:
            proposals = f"registry.proposals({name!r}, {variant!r})"
        if f:
            proposals = f"amci.fallback_proposals(problem, {proposals})"
    return SCRIPT.format(
        about=about and f" at {about}",
        ahead=ahead,
        problem=f"amci.with_target({problem}, {f!r})" if f else problem,
        proposals=proposals,
        y=y,
        theta=theta,
        draws=settings.draws,
        seed=settings.seed,
    )

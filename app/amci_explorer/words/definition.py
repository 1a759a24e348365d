r"""What is estimated, and by what, in one sentence."""

from __future__ import annotations

__all__ = ["definition"]

from amci_core.models import Problem
from amci_explorer.problems import registry
from amci_explorer.problems.presets import about_mu

# The curve of each proposal.
CURVES = {"q₁": "q1", "q₁⁺": "q1", "q₁⁻": "q1_minus", "q₂": "q2"}


def definition(problem: Problem) -> tuple[str, dict[str, str]]:
    """The sentence, and the curve whose colour each word has.

    Arguments:
        problem: The problem; with another f the one that has it.
    """
    of_x = "p(x | y)" if problem.y is not None else "p(x)"
    f = "f(x; θ)" if problem.theta is not None else "f(x)"
    own_f = registry.split(problem.name)[1]
    here = f"here f = {own_f}" if own_f else about_mu(problem)
    mu = f"μ = E[{f} | y]" if problem.y is not None else f"μ = E[{f}]"
    begin = f"{mu}, {here}" if here else mu
    if problem.nonnegative:
        whose = f"q₁, which should match g ∝ {f} {of_x}"
        ratio = "E₁ / E₂"
    else:
        whose = f"q₁⁺ and q₁⁻, which should match g⁺ ∝ f⁺ {of_x} and g⁻ ∝ f⁻ {of_x}"
        ratio = "(E₁⁺ − E₁⁻) / E₂"
    if "E2" in registry.terms(problem.name):
        density = "the posterior" if problem.y is not None else "the prior"
        rest = f", and from q₂, which should match {density} {of_x}: μ = {ratio}"
    else:
        rest = "; E₂ = 1 is known"
    return f"{begin}: AMCI draws from {whose}{rest}.", {mu: "ink", **CURVES}

r"""A problem with another f: the same prior and likelihood, and a target that is a line of text.

The posterior stays, so that q2 stays what it was. The q1 of the problem it comes from is of no
use: until one is learnt, q2's draws stand in for it.
"""

from __future__ import annotations

__all__ = ["FALLBACK", "TargetProblem", "fallback_proposals", "target_name", "with_target"]

from typing import Any

from torch import Tensor

from amci_core.flows import Proposals
from amci_core.models import Problem, check_problem
from amci_core.models.base import DerivedProblem, OptimalProposals
from amci_core.models.distributions import nonnegative_at_draws
from amci_core.models.expression import Expression
from amci_core.models.fingerprint import unlike

FALLBACK = "q2 alone"


class TargetProblem(DerivedProblem):
    """A problem that differs from the original in f alone.

    Its truth is unknown: `amci_core.reference_value` computes it. Its defensive density is the
    prior, which does not cover an f far out in the prior's tail.

    Arguments:
        original: The problem.
        expression: f.
        nonnegative: Whether f >= 0.
    """

    nonnegative = False

    def __init__(self, original: Problem, expression: Expression, *, nonnegative: bool) -> None:
        super().__init__(original)
        self.expression, self.nonnegative = expression, nonnegative
        self.f_range = expression.f_range
        self.name = target_name(original.name, expression.text)
        self.title = f"{original.title or original.name}: f = {expression.text}"
        self.description = (
            f"{original.title or original.name}, with f = {expression.text} in place of its own. "
            "The posterior and q2 are unchanged; q1 must be learnt for this f."
        )
        self.formula = r"\mu(y,\theta)=\mathrm{E}[f(x;\theta)\mid y]"

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        return self.expression(x, theta)

    def optimal_proposals(self) -> OptimalProposals | None:
        known = self.original.optimal_proposals() or {}
        return {"q2": known["q2"]} if "q2" in known else None

    def __reduce__(self) -> Any:
        return with_target, (self.original, self.expression.text, self.nonnegative)


def target_name(original: str, text: str) -> str:
    """What a problem with another f is called."""
    return f"{original} with f = {' '.join(text.split())}"


def with_target(
    problem: Problem | str, expression: str, nonnegative: bool | None = None
) -> TargetProblem:
    """The problem with f replaced by an expression of x and theta, such as "x1 > theta".

    Arguments:
        problem: The problem whose p(x, y) and theta are taken, or the name of a shipped one.
        expression: f, see `amci_core.models.expression`: x1 to xD and theta, + - * / **,
            comparisons, and, or, exp, log, sqrt, abs, min, max, sin, cos, tanh, where, sum, norm.
        nonnegative: Whether f >= 0. None (default): whether no draw shows a negative value, of the
            prior, the defensive density and a known q2 at cases of any y and theta;
            else f is split into its signs, and needs a q1_minus.

    Returns:
        The problem: p(x, y), y and theta of the original, the expression as f.

    Raises:
        ValueError: the expression is not one (`ExpressionError`, with the column), or f is not
            finite, or negative though it should not be, at draws of the prior.

    Example:
        >>> import amci_core as amci
        >>> window = with_target(amci.problem("tail-1d"), "abs(x1 - theta) < 0.5")
        >>> window.nonnegative, window.theta.name
        (True, 'theta')
        >>> proposals = fallback_proposals(window, amci.load_proposals("tail-1d"))
        >>> e = amci.estimate(window, proposals, y=1.0, theta=0.5, draws=1000)
        >>> bool(abs(e.value - 0.52) < 0.1)
        True
    """
    problem = check_problem(problem)
    original = problem.original if isinstance(problem, TargetProblem) else problem
    size = 0 if original.theta is None else original.theta.dim
    read = Expression(expression, dim=original.x.dim, theta_dim=size)
    seems_nonnegative = nonnegative_at_draws(original, read)
    nonnegative = seems_nonnegative if nonnegative is None else nonnegative
    made = TargetProblem(original, read, nonnegative=nonnegative)
    made.check(*made.typical_case())
    return made


def fallback_proposals(problem: TargetProblem, proposals: Proposals) -> Proposals:
    """Proposals for a problem with another f, not trained for it: q2 for each term.

    Estimates with them are those of SNIS with q2. Where the original has no q2, since E2 is known,
    the problem's defensive density draws instead.

    Arguments:
        problem: The problem.
        proposals: Proposals for the problem that it comes from.

    Returns:
        `Proposals`, with q2 for every q1.

    Raises:
        ValueError: the problem has no other f, or the proposals are for another problem.
    """
    if not isinstance(problem, TargetProblem):
        raise ValueError(
            f"problem: expected one with another f, from problem.with_target, got {problem!r}. "
            "Before any training, use Proposals.from_defensive(problem)"
        )
    if other := unlike(problem.original, proposals.problem, proposals.fingerprint):
        raise ValueError(
            f"proposals: expected proposals for {problem.original.name}, got proposals for "
            f"{other}. Pass those of the original problem"
        )
    q = proposals.q2 or Proposals.from_defensive(problem).q1_plus
    q1_minus = None if problem.nonnegative else q
    note = "q1 has not been learnt for this f: draws of q2, or of the prior, stand in for it."
    known: Any = {"card": {"note": note}, "fingerprint": problem.fingerprint, "source": problem}
    return Proposals(problem.name, FALLBACK, q, q1_minus, proposals.q2, **known)

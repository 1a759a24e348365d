r"""The set of proposals that goes with a problem, and draws of several densities at once."""

from __future__ import annotations

__all__ = ["DEFENSIVE", "HistoryEntry", "Proposals", "check_proposals", "draw_all"]

import copy
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from amci_core._arguments import check_count, seed_from
from amci_core.estimators.draws import COMPONENTS, PROPOSALS
from amci_core.flows.density import ConditionalDensity, Proposal
from amci_core.flows.external import external
from amci_core.flows.mixture import DefensiveComponent, Mixture, MixtureDensity
from amci_core.flows.posterior import PosteriorDraws
from amci_core.flows.storage import save
from amci_core.models import Problem, check_problem
from amci_core.models.fingerprint import Fingerprint, unlike

Key = TypeVar("Key", bound=Hashable)
# The variant that draws from the problem's defensive density, before anything is trained for it.
DEFENSIVE = "defensive"
# Those of a table, and the proposal for M - f where f lies in [0, M].
NAMES = (*PROPOSALS, "q1_complement")


class ModelCard(dict[str, Any]):
    """What is known of proposals: configuration and evaluation. It prints the names of entries."""

    def __repr__(self) -> str:
        entries = (
            f"  {name}: {', '.join(entry) if isinstance(entry, Mapping) else entry}"
            for name, entry in self.items()
        )
        return "\n".join(["Model card", *entries])


@dataclass(frozen=True)
class Proposals:
    """One proposal for each term of a problem; None where a term needs none.

    Arguments:
        problem: Name of the problem that they were made for.
        variant: Where they come from: `spline`, `paper`, `oracle`, or a name of the user's.
        q1_plus: For E1_plus, towards f_plus p(x, y).
        q1_minus: For E1_minus, towards f_minus p(x, y); None where f >= 0.
        q2: For E2, towards p(x, y); None where the normalizer is known.
        card: What is known of them, see `ModelCard`.
        q1_complement: Towards (M - f) p(x, y), for an f in [0, M]; None where there is none. It
            serves `amci-cv`.
        fingerprint: `Problem.fingerprint` of the problem, which tells it from others of its name;
            without it the name decides.
        source: The problem itself, for `sample`; by default the shipped one of that name.

    Example:
        >>> import amci_core as amci
        >>> exact = amci.load_proposals("tail-1d", variant="oracle")
        >>> mine = Proposals("tail-1d", "mine", exact.q1_plus, None, exact.q2)
        >>> mine.present
        (0, 2)
    """

    problem: str
    variant: str
    q1_plus: Proposal
    q1_minus: Proposal | None = None
    q2: Proposal | None = None
    card: dict[str, Any] = field(default_factory=dict)
    q1_complement: Proposal | None = None
    fingerprint: Fingerprint | None = None
    source: Problem | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "card", ModelCard(self.card))

    def __repr__(self) -> str:
        built = self.card.get("configuration", {}).get("proposals", {})
        lines = [f"Proposals for {self.problem}, variant {self.variant}"]
        for name, proposal in self.by_name.items():
            family = built.get(name, {}).get("family", type(proposal).__name__)
            weights = 0
            if isinstance(proposal, nn.Module):
                weights = sum(p.numel() for p in proposal.parameters())
            lines.append(f"  {name}: {family}" + (f", {weights:,} weights" if weights else ""))
        return "\n".join([*lines, *([f"  {self.cost}"] if self.cost else [])])

    @classmethod
    def from_distributions(
        cls,
        problem: Problem | str,
        *,
        q1_plus: Any,
        q2: Any = None,
        q1_minus: Any = None,
        q1_complement: Any = None,
    ) -> Proposals:
        """Proposals from other libraries: functions of y and theta that return a distribution.

        A function takes y (*, D_y) and theta (*, D_theta), or None where the problem has no theta.
        It gives an object with `sample` and `log_prob`, as those of `torch.distributions`, of
        batch shape (*) and event shape (D,); where D = 1 the event shape may be () instead. A flow
        of zuko gives such objects, `AtContext` makes them of normflows and sbi.

        Functions get float64: for float32 weights call `flow.double()`. Points outside the support
        get -inf, with `validate_args` on or off. Draws depend on the
        seed alone: the global generator is seeded for them, and set back. Up to 131,072 draws at
        one case are compared with the log density, which has to be normalized; that takes a second
        or so.

        Arguments:
            problem: What they are for.
            q1_plus: For E1_plus, towards f_plus p(x, y).
            q2: For E2, towards p(x, y); None where the normalizer is known.
            q1_minus: For E1_minus, towards f_minus p(x, y); None where f >= 0.
            q1_complement: Towards (M - f) p(x, y), for an f in [0, M]; None for none.

        Warning:
            What goes to other processes is pickled: the functions have to be functions of a
            module, modules of PyTorch or objects of a module's class, and no lambda. Files handed
            to the dashboard are run by each process, so that any function will do.

        Raises:
            ValueError: one is no function, or is not there though the problem needs it; shapes
                do not fit, log_prob is NaN, draws do not follow log_prob, or its integral is not
                one. It names the proposal.

        Example:
            >>> import amci_core as amci
            >>> from torch.distributions import Exponential, Normal, TransformedDistribution
            >>> from torch.distributions.transforms import AffineTransform
            >>> tail = amci.problem("tail-1d")
            >>> def above(y, theta):
            ...     excess = Exponential(torch.full_like(theta, 6.0))
            ...     return TransformedDistribution(excess, AffineTransform(theta, 1.0))
            >>> made = Proposals.from_distributions(
            ...     tail, q1_plus=above, q2=lambda y, theta: Normal(y / 2, 0.8)
            ... )
            >>> e = amci.estimate(tail, made, y=1.0, theta=3.0, draws=1000)
            >>> bool(abs(e.value / tail.truth(1.0, 3.0) - 1) < 0.1), str(e.verdict.level)
            (True, 'reliable')
        """
        problem = check_problem(problem)
        if problem.nonnegative and q1_minus is not None:
            raise ValueError(f"q1_minus: {problem.name} has f >= 0. Leave q1_minus out")
        if q2 is None and not problem.knows_evidence:
            raise ValueError(
                f"q2: expected a function, got None. {problem.name} has no known evidence E2: "
                "pass a proposal for it, such as its prior"
            )
        if q1_complement is not None and problem.f_max is None:
            raise ValueError(
                f"q1_complement: f of {problem.name} has no known range [0, M]. Leave "
                "q1_complement out, or declare nonnegative = True and f_range"
            )
        given = dict(zip(NAMES, (q1_plus, q1_minus, q2, q1_complement), strict=True))
        made: Any = dict.fromkeys(NAMES)
        for name, distribution in given.items():
            if distribution is not None:
                try:
                    made[name] = external(distribution, problem)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from error
        of: Any = {"fingerprint": problem.fingerprint, "source": problem}
        return cls(problem.name, "external", **made, **of)

    @classmethod
    def from_defensive(cls, problem: Problem) -> Proposals:
        """Proposals before any training: the problem's own defensive density of each term.

        For E1 it is that of `sample_defensive`, for E2 the prior; no q2 if E2 is known.

        Arguments:
            problem: What they are for.

        Example:
            >>> import amci_core as amci
            >>> Proposals.from_defensive(amci.problem("gain-loss")).present
            (0, 1, 2)
        """
        problem = check_problem(problem)
        parts: Any = {"q1_plus": DefensiveComponent(problem, "E1_plus")}
        if not problem.nonnegative:
            parts["q1_minus"] = DefensiveComponent(problem.with_negated_f(), "E1_plus")
        if not problem.knows_evidence:
            parts["q2"] = DefensiveComponent(problem, "E2")
        note = "Nothing has been trained: the problem's defensive density draws."
        of: Any = {"fingerprint": problem.fingerprint, "source": problem}
        return cls(problem.name, DEFENSIVE, **parts, card={"note": note}, **of)

    @property
    def verdict(self) -> str | None:
        """What the check after training says of them, a sentence; None without one.

        Example:
            >>> import amci_core as amci
            >>> amci.load_proposals("tail-1d").verdict[:33]
            'reliable at all 30 held-out cases'
        """
        text: str | None = self.card.get("configuration", {}).get("verdict", {}).get("text")
        return text

    @property
    def cost(self) -> str | None:
        """Evaluations and seconds of their training and when it pays, a sentence; or None.

        It pays once as many queries of 1,000 draws would have cost other methods more evaluations
        of the density, for the same errors; see `amci_core.training.cost`.
        """
        text: str | None = self.card.get("configuration", {}).get("cost", {}).get("text")
        return text

    def sample(self, y: Any = None, n: int = 1000, *, seed: int | None = 0) -> PosteriorDraws:
        """Weighted draws of the posterior p(x | y) from q2, or from the prior if there is no q2.

        Arguments:
            y: One observation, (D_y,), or a number; None if the problem has no y.
            n: Number of draws.
            seed: Whole number >= 0; None for a random one.

        Returns:
            `PosteriorDraws`: `x` (n, D), `log_weights` (n,), `ess`, `resampled()`, `to_arviz()`.

        Raises:
            ValueError: y does not fit the problem, or is not one observation.

        Example:
            >>> import amci_core as amci
            >>> amci.load_proposals("tail-1d", variant="oracle").sample(1.0, 200)
            200 posterior draws for tail-1d, ESS 200
        """
        check_count("n", n, low=1, high=10**7)
        problem = self.source or check_problem(self.problem)
        # q2 does not depend on theta.
        y, theta = problem.check(y, problem.typical_case()[1])
        if y.ndim > 1:
            raise ValueError(f"y: expected one observation, got {len(y)}. Call sample for each")
        generator = torch.Generator().manual_seed(seed_from(seed))
        with torch.inference_mode():
            density = (self.q2 or DefensiveComponent(problem, "E2"))(y, theta)
            x, log_q = density.draw(n, generator)
            log_weights = problem.log_joint(x, y) - log_q
        return PosteriorDraws(problem, x.numpy(), log_weights.numpy())

    def save(self, folder: str | Path, *, replace: bool = False) -> Path:
        """Writes them to a folder that `load_proposals(problem, folder=...)` reads; returns it.

        Arguments:
            folder: Where to; new, or empty.
            replace: Whether to replace the proposals that the folder holds, with their evaluation,
                recipe, training and history; other files stay. Until the new ones are whole
                `load_proposals` gives the old ones.

        Raises:
            ValueError: the folder holds proposals already, and `replace` is False; or it holds
                other files; or there is no record of how these are built, as for the oracle and
                for densities of your own.
            StoredFileError: the folder cannot be written.

        Example:
            >>> from tempfile import mkdtemp
            >>> import amci_core as amci
            >>> folder = amci.load_proposals("peak").save(mkdtemp())
            >>> amci.load_proposals("peak", folder=folder).variant
            'spline'
        """
        return save(folder, self, replace)

    def to(self, target: torch.device | torch.dtype) -> Proposals | None:
        """A copy on a device, or of another type of numbers.

        None if a proposal is no network of PyTorch: it computes on the CPU in float64 alone.
        """
        if not all(isinstance(part, nn.Module) for part in self.by_name.values()):
            return None
        # Copied together: a proposal can hold another as a component.
        parts: Any = copy.deepcopy(self.by_name)
        return replace(self, **{name: part.to(target) for name, part in parts.items()})

    @property
    def present(self) -> tuple[int, ...]:
        """Indices in `amci_core.estimators.draws.PROPOSALS` of the proposals that there are."""
        return tuple(j for j, name in enumerate(PROPOSALS) if name in self.by_name)

    @property
    def by_name(self) -> dict[str, Proposal]:
        """The proposals that there are, q1_complement among them."""
        return {name: q for name in NAMES if (q := getattr(self, name)) is not None}

    def at(self, y: Tensor, theta: Tensor | None) -> dict[int, ConditionalDensity]:
        """The densities at y (*, D_y) and theta (*, D_theta), by number; networks run once."""
        densities: dict[int, ConditionalDensity] = {}
        for name, proposal in reversed(self.by_name.items()):  # q2 before q1
            if isinstance(proposal, Mixture) and proposal.defensive is self.q2 and 2 in densities:
                density: ConditionalDensity = proposal.at(y, theta, densities[2])
            else:
                density = proposal(y, theta)
            densities[COMPONENTS.index(name)] = density
        return dict(sorted(densities.items()))


@dataclass(frozen=True)
class HistoryEntry:
    """A checkpoint of the training of q1_plus, with its proposals.

    Arguments:
        step: Steps of training until then.
        seconds: Time of training until then.
        relative_variance: Held-out relative variance of f_plus w for one draw, median over cases;
            None where no draw reached f.
        proposals: Proposals with q1_plus of that moment; q2 is the trained one.
    """

    step: int
    seconds: float
    relative_variance: float | None
    proposals: Proposals = field(repr=False)


def check_proposals(problem: Problem, proposals: Any) -> None:
    """Checks the proposals that are to draw for a problem.

    Raises:
        ValueError: they are no proposals, or were made for another problem.
    """
    if not isinstance(proposals, Proposals):
        raise ValueError(
            "proposals: expected Proposals, of learn or load_proposals, or the name of a variant, "
            f"got {proposals!r:.60}. Pass y and theta by name"
        )
    if other := unlike(problem, proposals.problem, proposals.fingerprint):
        raise ValueError(
            f"proposals: expected proposals for {problem.name}, got proposals for {other}. "
            f"Load or train proposals for {problem.name}"
        )


def draw_all(
    densities: Mapping[Key, Any],
    counts: Mapping[Key, int],
    generators: Mapping[Key, torch.Generator | None],
    *,
    uniform: Mapping[Key, Tensor] | None = None,
) -> tuple[dict[Key, Tensor], dict[Key, dict[Key, Tensor]]]:
    """Points of several densities, and the log density of all points under each of them.

    Arguments:
        densities: The densities, all at the same y and theta, by any name.
        counts: How many points each gives; those left out give none.
        generators: Sources of random numbers, by the same names as `counts`.
        uniform: For densities that take them, points of (0, 1]^D, (cases * n, D), in the
            place of base samples of their own.

    Returns:
        x[j], the points of j, (*, n_j, D); and log_q[k][j], their log density under k in nats.

    Raises:
        ValueError: a log density is NaN, as with weights that are; it names the proposal.
    """
    x: dict[Key, Tensor] = {}
    log_q: dict[Key, dict[Key, Tensor]] = {k: {} for k in densities}
    # Mixtures whose defensive component is one of the densities: it is evaluated once.
    components = {
        k: m
        for k, q in densities.items()
        for m, other in densities.items()
        if isinstance(q, MixtureDensity) and q.defensive is other
    }
    for j, n in counts.items():
        q, u = densities[j], (uniform or {}).get(j)
        if j in components:
            x[j], log_flow, log_defensive = q.draw_apart(n, generators[j], u)
            log_q[j][j], log_q[components[j]][j] = q.mixed(log_flow, log_defensive), log_defensive
        elif u is None:
            x[j], log_q[j][j] = q.draw(n, generators[j])
        else:
            x[j], log_q[j][j] = q.draw_from_uniform(u, generators[j])
    for k in sorted(densities, key=lambda k: k in components):
        q, missing = densities[k], [j for j in x if j not in log_q[k]]
        if missing:
            points = torch.cat([x[j] for j in missing], -2)
            if k in components:
                log_defensive = torch.cat([log_q[components[k]][j] for j in missing], -1)
                values = q.mixed(q.flow.log_prob(points), log_defensive)
            else:
                values = q.log_prob(points)
            parts = values.split([x[j].shape[-2] for j in missing], -1)
            log_q[k].update(zip(missing, parts, strict=True))
        if any(bool(part.isnan().any()) for part in log_q[k].values()):
            name = COMPONENTS[k] if isinstance(k, int) else k
            raise ValueError(f"{name}: its log density is NaN. Train or load it anew")
    return x, {k: {j: log_q[k][j] for j in x} for k in densities}

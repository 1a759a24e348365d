r"""What a check of a problem finds, and how it is said."""

from __future__ import annotations

__all__ = ["ERROR", "WARNING", "Checked", "Finding", "Notes", "place"]

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from amci_core.models.contract import Violation, attempt, place

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Finding:
    """A mistake in the definition of a problem.

    Arguments:
        level: `error` where results would be wrong or nothing runs, `warning` where some features
            do not work or are worse than they could be.
        method: The method or attribute that is to be changed.
        sentence: What is wrong with it and what to change, with its name.
    """

    level: str
    method: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.level}: {self.sentence}"


@dataclass(frozen=True)
class Checked:
    """What `amci_core.check` found.

    Arguments:
        problem: Name of the problem.
        findings: Errors, then warnings.
        not_judged: What could not be told from the draws that there was time for, a sentence each.
        seconds: How long it took.
    """

    problem: str
    findings: tuple[Finding, ...]
    not_judged: tuple[str, ...]
    seconds: float = field(compare=False)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make results wrong or impossible."""
        return tuple(each for each in self.findings if each.level == ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The other findings."""
        return tuple(each for each in self.findings if each.level != ERROR)

    def refuse(self) -> None:
        """Does nothing where there is no error.

        Raises:
            ValueError: there are errors; its message has all of them.
        """
        if self.errors:
            raise ValueError("; ".join(each.sentence for each in self.errors))

    def __str__(self) -> str:
        counts = [(len(self.errors), ERROR), (len(self.warnings), WARNING)]
        said = " and ".join(f"{n} {name}{'s' * (n > 1)}" for n, name in counts if n)
        lines = [f"{self.problem}: {said or 'no mistake found'}"]
        lines += [f"  {each}" for each in self.findings]
        lines += [f"  not judged: {each}" for each in self.not_judged]
        return "\n".join(lines)


class Notes:
    """What has been found so far, and the time that is left.

    Arguments:
        seconds: The time for everything.
        clock: What counts them.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock, self.began = clock, clock()
        self.seconds = seconds
        self.findings: list[Finding] = []
        self.not_judged: list[str] = []

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.began

    def left(self, share: float = 1.0) -> bool:
        """Whether less than this share of the time is spent."""
        return self.spent < share * self.seconds

    def has(self, seconds: float) -> bool:
        """Whether there are so many seconds left."""
        return self.spent + seconds <= self.seconds

    def error(self, method: str, said: str) -> None:
        """Notes an error; `said` goes on after the method's name. One error a method is enough."""
        self._note(ERROR, method, said)

    def warning(self, method: str, said: str) -> None:
        """Notes a warning, likewise."""
        self._note(WARNING, method, said)

    def skip(self, said: str) -> None:
        """Notes what could not be judged."""
        if said not in self.not_judged:
            self.not_judged.append(said)

    def violation(self, found: Violation) -> None:
        """Notes what a method gave in the place of what was expected."""
        self.error(found.method, found.text)

    def finite(self, method: str, value: Tensor, x: Tensor, *, density: bool = True) -> bool:
        """Whether values (*) at draws x (*, D) are numbers, or -inf for a density, else noted."""
        bad = value.isnan() | (value == torch.inf) | ((value == -torch.inf) & (not density))
        if not bad.any():
            return True
        came = "NaN" if value[bad][0].isnan() else f"{float(value[bad][0]):g}"
        allowed = "finite numbers"
        if density:
            allowed = "numbers below infinity, in nats, and -inf where the density is zero"
        self.error(
            method,
            f"is {came} at x = {place(x[bad][0])}, as at {int(bad.sum()):,} of {bad.numel():,} "
            f"draws; return {allowed}",
        )
        return False

    def value(self, method: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """What a method returns; None where it raised, which is noted."""
        found = attempt(method, call, *arguments)
        if isinstance(found, Violation):
            self.violation(found)
            return None
        return found

    def failed(self, *methods: str) -> list[str]:
        """Which of these methods, or of all where none is named, have an error."""
        wrong = [each.method for each in self.findings if each.level == ERROR]
        return [each for each in wrong if not methods or each in methods]

    def broken(self, test: str, *methods: str) -> bool:
        """Whether a test cannot be done, since one of these methods has an error; then noted."""
        wrong = self.failed(*methods)
        if wrong:
            has = "have errors" if len(wrong) > 1 else "has an error"
            self.skip(f"{test}, since {' and '.join(wrong)} {has}")
        return bool(wrong)

    def _note(self, level: str, method: str, said: str) -> None:
        if not any(each.method == method and each.level == level for each in self.findings):
            self.findings.append(Finding(level, method, f"{method}: {said}"))

    def result(self, problem: str) -> Checked:
        """Everything noted."""
        ordered = sorted(self.findings, key=lambda each: each.level)
        return Checked(problem, tuple(ordered), tuple(self.not_judged), self.spent)

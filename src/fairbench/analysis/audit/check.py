"""A check of the audit, which sees every analysis of a study."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fairbench.analysis.analyses import Analyses
from fairbench.common.checks import Flag, Severity

SHOWN = 4
"""Values of a fact that a flag lists."""


@dataclass(frozen=True)
class Check:
    """One thing that may be wrong.

    Attributes:
        name: the name of its flag.
        severity: how much it weighs.
        raised: when its flag is raised, in a sentence.
        advice: what to do then.
        evidence: what a case has of it, in sentences; empty where nothing is wrong.
    """

    name: str
    severity: Severity
    raised: str
    advice: str
    evidence: Callable[[Analyses], str]

    def flags(self, case: Analyses) -> list[Flag]:
        """The flag, if it is raised."""
        evidence = self.evidence(case)
        return [Flag(self.name, self.severity, evidence, self.advice)] if evidence else []


def check(name: str, severity: Severity, advice: str) -> Callable[[Callable[[Analyses], str]], Check]:
    """Make a check of a function that returns the evidence; its docstring says when the flag is raised.

    Args:
        name: the name of the flag.
        severity: how much it weighs.
        advice: what to do about it.
    """

    def made(evidence: Callable[[Analyses], str]) -> Check:
        return Check(name, severity, evidence.__doc__ or "", advice, evidence)

    return made


def some(values: Sequence[str], separator: str = ", ") -> str:
    """Values, the first of many."""
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return separator.join(values[:SHOWN]) + more


def merged(statements: Iterable[tuple[str, str]]) -> str:
    """Statements with their places; a statement that holds in several places stands once.

    Args:
        statements: place and statement of each.
    """
    places: dict[str, list[str]] = {}
    for place, statement in statements:
        places.setdefault(statement, []).append(place)
    return "; ".join(f"{', '.join(where)}: {statement}" for statement, where in places.items())


def count(n: int, noun: str) -> str:
    """A number of things."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"

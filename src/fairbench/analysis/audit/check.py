"""A check of the audit and helpers for the text of its flag."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fairbench.analysis.analyses import Analyses
from fairbench.common.checks import Flag, Severity

SHOWN = 4
"""The largest number of values that a flag lists."""


@dataclass(frozen=True)
class AuditCheck:
    """One possible problem of a study.

    Attributes:
        raised: the condition that raises its flag, in a sentence.
        evidence: returns the evidence in sentences; empty where nothing is wrong.
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


def flag(name: str, severity: Severity, advice: str) -> Callable[[Callable[[Analyses], str]], AuditCheck]:
    """Make a check of a function that returns the evidence and whose docstring is the condition of the flag."""

    def made(evidence: Callable[[Analyses], str]) -> AuditCheck:
        return AuditCheck(name, severity, evidence.__doc__ or "", advice, evidence)

    return made


def some(values: Sequence[str], separator: str = ", ") -> str:
    """The first few values, and the number of the remaining ones."""
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return separator.join(values[:SHOWN]) + more


def merged(statements: Iterable[tuple[str, str]]) -> str:
    """Statements, given as place and statement, as text; a statement that holds in several places is written once."""
    places: dict[str, list[str]] = {}
    for place, statement in statements:
        places.setdefault(statement, []).append(place)
    return "; ".join(f"{', '.join(where)}: {statement}" for statement, where in places.items())


def plural(n: int, noun: str) -> str:
    """A number with its noun: "1 trial", "2 trials"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"

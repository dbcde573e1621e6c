"""What a check sees of a study, and the flag that it raises."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import Results
from fairbench.study.history import History

Severity = Literal["fail", "warn", "note"]
"""Nobody may read the verdicts without a fail; a reader should weigh a warn; a note is worth knowing."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
SHOWN = 4
"""Values of a fact that a flag lists."""


@dataclass(frozen=True)
class Flag:
    """Something about a study that whoever reads it should know.

    Attributes:
        name: what is wrong, in a few words.
        severity: how much it weighs.
        evidence: what the records and plans say, in sentences.
        advice: what to do about it.
    """

    name: str
    severity: Severity
    evidence: str
    advice: str

    @property
    def heading(self) -> str:
        """The name as a page or a terminal shows it: in capitals if nobody may overlook it."""
        return self.name.upper() if self.severity == "fail" else self.name.capitalize()

    @property
    def text(self) -> str:
        """Name and evidence in a line."""
        return f"{self.heading}: {self.evidence}"


@dataclass(frozen=True)
class Case:
    """All that is audited.

    Attributes:
        results: the study's results so far.
        comparisons: the verdict table.
        history: the plans of the study.
        declared: the verdict table by the plan that was declared before the first final trial, if there is one.
    """

    results: Results
    comparisons: Sequence[Comparison]
    history: History
    declared: Sequence[Comparison]

    def title(self, c: Comparison) -> str:
        """A comparison in words."""
        return self.results.study.suite.pair_title(c.arena, c.reference, c.baseline)

    def margin(self, c: Comparison) -> float:
        """The largest difference that does not matter in a comparison."""
        return self.results.study.suite.arenas[c.arena].margin


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
    evidence: Callable[[Case], str]

    def flags(self, case: Case) -> list[Flag]:
        """The flag, if it is raised."""
        evidence = self.evidence(case)
        return [Flag(self.name, self.severity, evidence, self.advice)] if evidence else []


def check(name: str, severity: Severity, advice: str) -> Callable[[Callable[[Case], str]], Check]:
    """Make a check of a function that returns the evidence; its docstring says when the flag is raised.

    Args:
        name: the name of the flag.
        severity: how much it weighs.
        advice: what to do about it.
    """

    def made(evidence: Callable[[Case], str]) -> Check:
        return Check(name, severity, evidence.__doc__ or "", advice, evidence)

    return made


def some(values: Sequence[str], separator: str = ", ") -> str:
    """Values, the first of many."""
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return separator.join(values[:SHOWN]) + more


def said_once(statements: Iterable[tuple[str, str]]) -> str:
    """Statements with their places; the same one in several places is said once.

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

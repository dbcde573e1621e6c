"""A named check, and its result, which is a flag. `fairbench audit` and `fairbench check` are lists of checks."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

from fairbench.common.formatting import merged, some

CaseT = TypeVar("CaseT")
Severity = Literal["fail", "warn", "note", "pass"]
"""After a "fail" the numbers must not be used. A "warn" may change their meaning, and a "note" is worth knowing."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
STYLES = {"fail": "bold red", "warn": "yellow", "note": "", "pass": "green"}
"""The style of each severity in a terminal."""


@dataclass(frozen=True)
class Flag:
    """The result of a check.

    Attributes:
        name: what was checked or what is wrong, in a few words.
        evidence: the observation, in sentences.
        advice: what to do; empty if nothing is wrong.
    """

    name: str
    severity: Severity
    evidence: str
    advice: str

    @property
    def text(self) -> str:
        """The name and the evidence in one line. The name of a fail is in capitals."""
        name = self.name.upper() if self.severity == "fail" else self.name.capitalize()
        return f"{name}: {self.evidence}"


Judge = Callable[[CaseT], str | tuple[Severity, str] | Iterator[str | tuple[str, str]]]
"""A function that judges a case. It returns the evidence, which is empty if nothing is wrong.

It may also return a severity and the evidence, or yield parts of the evidence: statements, or pairs of a place and a
statement.
"""


@dataclass(frozen=True)
class Check(Generic[CaseT]):
    """A requirement of a case, which `check` makes from a function.

    Attributes:
        name: the requirement or its violation, in a few words.
        severity: the severity of the flag, unless the judge returns one.
        advice: what to do if the requirement is not met.
        judge: the function; its docstring is the condition in one sentence.
    """

    name: str
    severity: Severity
    advice: str
    judge: Judge[CaseT]

    def flag(self, case: CaseT) -> Flag:
        """The result of the check for a case."""
        severity, evidence = self._judged(case)
        advice = self.advice
        if severity == "pass":
            advice = ""
        return Flag(self.name, severity, evidence, advice)

    def _judged(self, case: CaseT) -> tuple[Severity, str]:
        """The severity and the evidence for a case; "pass" without evidence."""
        judgement = self.judge(case)
        if isinstance(judgement, tuple):
            return judgement
        evidence = judgement if isinstance(judgement, str) else _listed(judgement)
        if not evidence:
            return "pass", ""
        return self.severity, evidence


def _listed(parts: Iterable[str | tuple[str, str]]) -> str:
    """Join parts of evidence: the first few statements, or all pairs of a place and a statement, each once."""
    statements = []
    pairs = []
    for part in parts:
        if isinstance(part, str):
            statements.append(part)
        else:
            pairs.append(part)
    if pairs:
        return merged(dict.fromkeys(pairs))
    return some(statements, "; ")


def check(name: str, severity: Severity, advice: str) -> Callable[[Judge[CaseT]], Check[CaseT]]:
    """A decorator that makes a check from its judge. The arguments are attributes of `Check`."""
    return functools.partial(Check, name, severity, advice)

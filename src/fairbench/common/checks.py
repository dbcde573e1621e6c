"""A named check and its result, a flag: `fairbench audit` and `fairbench check` are lists of checks."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

from fairbench.common.formatting import merged, some

CaseT = TypeVar("CaseT")
Severity = Literal["fail", "warn", "note", "pass"]
"""After a fail the numbers must not be used; a warn may change their meaning; a note is worth knowing."""
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
        """Name and evidence in one line; the name in capitals for a fail."""
        name = self.name.upper() if self.severity == "fail" else self.name.capitalize()
        return f"{name}: {self.evidence}"


Judge = Callable[[CaseT], str | tuple[Severity, str] | Iterator[str | tuple[str, str]]]
"""Judges a case: the evidence, empty if nothing is wrong, or a severity and the evidence; or a part for each case."""


@dataclass(frozen=True)
class Check(Generic[CaseT]):
    """One requirement of a case, made of a function by `check`.

    Attributes:
        name: the requirement or its violation, in a few words.
        severity: the severity of the flag, unless the judge returns one.
        advice: what to do if the requirement is not met.
        judge: its docstring is the condition, one sentence.
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
        judgement = self.judge(case)
        if isinstance(judgement, tuple):
            return judgement
        evidence = judgement if isinstance(judgement, str) else _listed(judgement)
        if not evidence:
            return "pass", ""
        return self.severity, evidence


def _listed(found: Iterable[str | tuple[str, str]]) -> str:
    """The first few statements; or all pairs of place and statement, each once."""
    statements = []
    pairs = []
    for part in found:
        if isinstance(part, str):
            statements.append(part)
        else:
            pairs.append(part)
    if pairs:
        return merged(dict.fromkeys(pairs))
    return some(statements, "; ")


def check(name: str, severity: Severity, advice: str) -> Callable[[Judge[CaseT]], Check[CaseT]]:
    """Make a check of its judge; the arguments are attributes of `Check`."""
    return functools.partial(Check, name, severity, advice)

"""A named check and its result, a flag: `fairbench audit` and `fairbench check` are lists of checks."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

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


Judge = Callable[[CaseT], str | tuple[Severity, str]]
"""Judges a case; returns the evidence, empty if nothing is wrong, or a severity and the evidence."""


@dataclass(frozen=True)
class Check(Generic[CaseT]):
    """One requirement of a case, made of a function by `check`.

    Attributes:
        name: the requirement or its violation, in a few words.
        severity: the severity of the flag, unless the judge returns one.
        advice: what to do if the requirement is not met.
    """

    name: str
    severity: Severity
    advice: str
    judge: Judge[CaseT]

    @property
    def condition(self) -> str:
        """The docstring of the judge, one sentence."""
        return self.judge.__doc__ or ""

    def flag(self, case: CaseT) -> Flag:
        """The result of the check."""
        judgement = self.judge(case)
        if isinstance(judgement, str):
            judgement = self.severity if judgement else "pass", judgement
        severity, evidence = judgement
        return Flag(self.name, severity, evidence, "" if severity == "pass" else self.advice)


def check(name: str, severity: Severity, advice: str) -> Callable[[Judge[CaseT]], Check[CaseT]]:
    """Make a check of its judge; the arguments are attributes of `Check`."""
    return functools.partial(Check, name, severity, advice)

"""A named check of a subject and the flag that it raises: `fairbench audit` and `fairbench check` are lists of them."""

from dataclasses import dataclass
from typing import Literal, get_args

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

"""The audit of a study: named flags, each with its evidence and what to do about it; `docs/audit.md` lists them."""

from dataclasses import replace
from functools import partial

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import assumptions, declaration, drift, horizon, records, search, treatment, trials
from fairbench.common.checks import SEVERITIES, Check, Flag
from fairbench.common.errors import attempted
from fairbench.common.wording import Wording

MODULES = (declaration, records, trials, treatment, search, horizon, assumptions, drift)
"""First what a study promised and has, then what makes a comparison unfair, what limits it, and the machine."""


def _severity_rank(judged: Check[Analyses] | Flag) -> int:
    """The rank of a severity: 0 is the worst."""
    return SEVERITIES.index(judged.severity)


def _checks() -> list[Check[Analyses]]:
    """Every check, the most severe first. Equal severities keep the order of `MODULES`, and of each module."""
    checks = []
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, Check):
                checks.append(value)
    return sorted(checks, key=_severity_rank)


AUDIT_CHECKS = tuple(_checks())


def audit(case: Analyses) -> list[Flag]:
    """Every flag that a study raises, by severity, then in the order of `AUDIT_CHECKS`."""
    flags = []
    for check in AUDIT_CHECKS:
        make_flag = partial(check.flag, case)
        flag_without_judgment = partial(_not_judged, check)  # where the check cannot compute with its numbers
        flag = attempted(make_flag, flag_without_judgment)
        if flag.severity != "pass":
            flags.append(_worded(flag, case.suite.wording))
    return sorted(flags, key=_severity_rank)


def _worded(flag: Flag, wording: Wording) -> Flag:
    """A flag in the words of a study."""
    return replace(flag, evidence=wording.text(flag.evidence), advice=wording.text(flag.advice))


def _not_judged(check: Check[Analyses], reason: str) -> Flag:
    """The flag of a check that raised an error, with the reason in words."""
    return Flag(
        name=check.name,
        severity="warn",
        evidence=f"this cannot be judged: {reason}.",
        advice="See whether a value is far too large.",
    )

"""The audit of a study: named flags, each with its evidence and what to do about it; `docs/audit.md` lists them."""

from functools import partial

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import assumptions, declaration, horizon, records, search, treatment, trials
from fairbench.common.checks import SEVERITIES, Check, Flag
from fairbench.common.errors import attempted

MODULES = (declaration, trials, records, treatment, search, horizon, assumptions)
AUDIT_CHECKS: tuple[Check[Analyses], ...] = tuple(
    sorted(
        (x for module in MODULES for x in vars(module).values() if isinstance(x, Check)),
        key=lambda x: SEVERITIES.index(x.severity),
    )
)
"""Every check, by severity; those of a module in its order."""


def audit(case: Analyses) -> list[Flag]:
    """Every flag that a study raises, by severity, then in the order of `AUDIT_CHECKS`."""
    flags = [attempted(partial(check.flag, case), partial(_not_judged, check)) for check in AUDIT_CHECKS]
    raised = [flag for flag in flags if flag.severity != "pass"]
    return sorted(raised, key=lambda flag: SEVERITIES.index(flag.severity))


def _not_judged(check: Check[Analyses], reason: str) -> Flag:
    return Flag(check.name, "warn", f"this cannot be judged: {reason}.", "See whether a value is far too large.")

"""The checks that `fairbench check` runs, and the result of one."""

from dataclasses import replace

from fairbench.common.checks import Check, Flag
from fairbench.common.errors import one_line
from fairbench.contract import BROKEN, cost, global_settings, gradients, groups, learning, repeating
from fairbench.contract.case import Case

MODULES = (learning, groups, repeating, global_settings, gradients, cost)
CONTRACT_CHECKS: tuple[Check[Case], ...] = tuple(
    x for module in MODULES for x in vars(module).values() if isinstance(x, Check)
)
"""Every check, in the order in which they are shown."""
TIMED = (cost.long_training,)
"""The checks that run while no other does."""


def checked(check: Check[Case], case: Case) -> Flag:
    """The result of a check, without advice in a note; an exception of the optimizer is evidence like any other."""
    try:
        flag = check.flag(case)
        return replace(flag, advice="") if flag.severity == "note" else flag
    except Exception as error:
        return Flag(check.name, check.severity, f"it raises {one_line(error)}", check.advice)
    except BaseException as error:  # as SystemExit
        return Flag(check.name, "fail", f"it raises {one_line(error)}", BROKEN)

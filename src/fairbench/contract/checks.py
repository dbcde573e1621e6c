"""The checks that `fairbench check` runs, and the result of one check."""

from dataclasses import replace

from fairbench.common.checks import Check, Flag
from fairbench.common.errors import one_line
from fairbench.contract import BROKEN, cost, global_settings, gradients, groups, learning, repeating
from fairbench.contract.case import Case

CONTRACT_CHECKS: tuple[Check[Case], ...] = (
    learning.trains,
    learning.every_tensor,
    learning.unused_parts,
    learning.lr_schedule,
    groups.parameter_groups,
    groups.order_of_groups,
    repeating.resumes,
    repeating.state_dict,
    repeating.loaded_weights,
    repeating.deterministic,
    repeating.global_random_state,
    global_settings.global_settings,
    gradients.gradients_untouched,
    gradients.missing_gradients,
    gradients.zero_gradients,
    gradients.sparse_gradients,
    gradients.bfloat16_weights,
    gradients.closure,
    cost.arguments,
    cost.state,
    cost.long_training,
)
"""All checks, in the order in which they are shown."""
TIMED = (cost.long_training,)
"""The checks that run while no other check does, since they measure time."""


def checked(check: Check[Case], case: Case) -> Flag:
    """The result of a check. An exception of the optimizer is evidence, too. A note has no advice."""
    try:
        flag = check.flag(case)
    except Exception as error:
        return Flag(check.name, check.severity, f"it raises {one_line(error)}", check.advice)
    except BaseException as error:  # such as SystemExit
        return Flag(check.name, "fail", f"it raises {one_line(error)}", BROKEN)
    if flag.severity == "note":
        flag = replace(flag, advice="")
    return flag

"""The admission of a driver to a study: the same plan as its other drivers, and the same environment."""

from collections.abc import Iterator, Sequence
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.formatting import some
from fairbench.runner.coordination.claims import Claims
from fairbench.runner.coordination.heartbeat import Heartbeat
from fairbench.runner.coordination.liveness import EXPIRY
from fairbench.runner.coordination.status import DriverStatus, names
from fairbench.runner.trial_loop import TrialLoop
from fairbench.study.environments import environment_differences
from fairbench.study.history import History, write_history
from fairbench.study.records import Store
from fairbench.study.target import target_in


def admit(loop: TrialLoop, store: Store, claims: Claims, heartbeat: Heartbeat, allow_mixed: bool) -> str:
    """Declare the plan of the study in its directory, and announce this driver to the other drivers.

    Returns:
        Warnings: how the plan differs from the one before, and the environment from that of other trials. Empty without
        a difference.

    Raises:
        UsageError: other drivers run a different plan, the plan is frozen, or the environment differs without
            `allow_mixed`.
    """
    with claims.holding("plan", heartbeat.beat):
        others = heartbeat.other_drivers()
        target = target_in(store.directory, loop.study.suite)
        history = target.declare(loop.study, store.final_trials(), running=names(others), expiry=EXPIRY)
        warnings = [_plan_warning(target.history, history)]
        if not loop.complete:
            warnings.append(_environment_warning(loop, others, allow_mixed))
        write_history(store.directory, history)
        heartbeat.announce(loop.study.environment)
    return "\n".join(warning for warning in warnings if warning)


def _plan_warning(before: History, history: History) -> str:
    """A warning about the changes of the plan before; empty without changes, or without a plan before."""
    if not before.plans or len(history.plans) == len(before.plans):
        return ""
    differing = before.changes_by(history.study)
    if history.study.suite.trains_programs:  # what changed in their code was said before the first check
        differing = [change for change in differing if ".code." not in change.path]
    if not differing:
        return ""
    listed = history.study.suite.wording.text(some([str(change) for change in differing], "; "))
    return f"the plan was changed: {listed}; trials that this changes run again; their earlier records are kept"


def _environment_warning(loop: TrialLoop, others: Sequence[DriverStatus], allow_mixed: bool) -> str:
    """A warning if the environment here differs from that of finished trials or of other drivers; otherwise empty.

    Raises `UsageError` if it differs and `allow_mixed` is False.
    """
    differing = environment_differences(_environments(loop, others), loop.study.environment)
    if not differing:
        return ""
    finished = "the finished ones"
    if others:
        finished += f" and those of {names(others)}"
    if not allow_mixed:
        raise UsageError(
            f"the remaining trials would run in a different environment from {finished}:\n{differing}\n"
            "--allow-mixed runs them, and the report says so; or choose another --output-dir"
        )
    warning = f"warning: the following trials run in a different environment from {finished}"
    return f"{warning}; the report will say so\n{differing}"


def _environments(loop: TrialLoop, others: Sequence[DriverStatus]) -> Iterator[Any]:
    """The environments of the finished trials, then those of the other drivers."""
    for record in loop.records.successful():
        if record.environment:
            yield record.environment
    for status in others:
        if status.environment:
            yield status.environment

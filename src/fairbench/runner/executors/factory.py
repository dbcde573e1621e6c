"""The executor that a study's conduct asks for."""

from collections.abc import Callable, Sequence

from fairbench.runner.executors.base import Executor, Report
from fairbench.runner.executors.local import CALL_LIMIT, ProcessExecutor
from fairbench.runner.run_options import Conduct
from fairbench.training.place import Checkpointing


def executor_of(
    conduct: Conduct,
    report: Report,
    say: Callable[[str], None],
    preload: Sequence[str] = (),
    call_limit: float = CALL_LIMIT,
    checkpointing: Checkpointing | None = None,
) -> Executor:
    """Processes of this machine, or a Ray cluster.

    Args:
        conduct: how the study is run.
        report: told of the running trials.
        say: told what the user should know.
        preload: modules that the trials will need.
        call_limit: seconds that a call may take.
        checkpointing: where running trials write their checkpoints, and how often; None for none.

    Raises:
        UsageError: Ray is asked for, and is not there.
    """
    if conduct.ray is None:
        return ProcessExecutor(conduct.places, report, preload, call_limit, conduct.server, checkpointing, conduct.oom)
    from fairbench.runner.executors.ray.executor import RayExecutor

    return RayExecutor(
        conduct.ray, conduct.places, report, say, preload, call_limit, checkpointing, conduct.allow_mixed, conduct.oom
    )

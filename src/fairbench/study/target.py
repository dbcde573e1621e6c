"""What is run or planned: a suite, and the directory of its study."""

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from fairbench.arenas.program import TASK
from fairbench.arenas.program_command import is_another_program
from fairbench.common.errors import UsageError
from fairbench.study.history import History, listed, read_history
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.suites.schema import Suite


@dataclass(frozen=True)
class Target:
    """A suite and the output directory of its study. `target_in` has checked that it holds no other suite.

    Attributes:
        history: the plans of the directory so far.
    """

    suite: Suite
    directory: Path
    history: History

    def declare(
        self,
        study: ResolvedSuite,
        final_trials: int,
        running: str = "",
        expiry: float = 0.0,
        freeze: bool = False,
    ) -> History:
        """The history of the directory with a study of the suite in force. Nothing is written.

        Args:
            study: the suite as it is resolved on this machine.
            final_trials: number of final trials that have a record.
            running: names of the drivers that run trials in the directory; empty without any.
            expiry: seconds after which a driver whose machine was lost is known to be dead.
            freeze: whether the plan must stay as it is from now on.

        Raises:
            UsageError: the plan is frozen or used by running drivers, and this study would change it.
        """
        if running:
            differing = self.history.changes_by(study)
            if differing:
                raise UsageError(
                    f"{running} runs the plan of {self.directory}, which this run would "
                    f"change{listed(differing, study.suite)}\n"
                    "wait until it has ended, or choose another --output-dir; "
                    f"if it was lost with its machine, that is known after {expiry:.0f} s"
                )
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        history = self.history.declare(study, now, final_trials)
        if freeze:
            history = history.freeze(final_trials)
        return history


def target_in(directory: Path, suite: Suite) -> Target:
    """The study of a suite in an output directory. Raises `UsageError` if it holds one of another suite or program."""
    history = read_history(directory)
    target = Target(suite, directory, history)
    if not history.plans:
        return target
    name = history.study.suite.name
    if name != suite.name:
        raise UsageError(f"{directory} holds suite {name!r}, not {suite.name!r}; choose another --output-dir")
    earlier = _programs(history.study.suite)
    for arena, command in _programs(suite).items():
        before = earlier.get(arena, command)
        if is_another_program(before, command):
            raise UsageError(
                f"{directory} holds a study of another program, {before!r}; "
                "choose another --output-dir, such as -o results/NAME"
            )
    return target


def _programs(suite: Suite) -> dict[str, str]:
    """The commands of the programs of a suite, by arena."""
    arenas = [name for name in suite.arenas if suite.task(name) == TASK]
    return {name: suite.arenas[name].model["program"] for name in arenas}

"""What is run or planned: a suite, and the directory of its study."""

from dataclasses import dataclass
from pathlib import Path

from fairbench.study.history import History, check_directory
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


def target_in(directory: Path, suite: Suite) -> Target:
    """The study of a suite in an output directory. Raises `UsageError` if the directory holds another suite."""
    history = check_directory(suite, directory)
    return Target(suite, directory, history)

"""Whether the learning rate changes what a training program reports, before any trial of a study."""

from collections.abc import Callable

from fairbench.common.errors import ProgramError, UsageError
from fairbench.common.exact_values import FEW_EXAMPLES
from fairbench.runner.equal_trials import Values, ignored_rate
from fairbench.runner.trainings.order_of_checks import QUICK
from fairbench.runner.trainings.program_runs import Run
from fairbench.study.trial_spec import TrialSpec

GROWTH = 10
"""The length of a run as a multiple of the one before it, while both rates give the same values."""
BUDGET = 60.0
"""The most seconds of all runs that are longer than the first one, approximately."""
LOWEST = 0
HIGHEST = -1
"""Positions in the first grid of the search."""


def check_effect_of_rate(
    first: Run, longest: int, run: Callable[[int, int], Run], spec: Callable[[int, int], TrialSpec]
) -> None:
    """Run a program with the lowest and the highest learning rate of a search.

    While both give the same values, they train for longer, if there is time. Otherwise the trials of the study show it.

    Args:
        first: a run with the lowest rate.
        longest: the number of steps of the longest run.
        run, spec: return a run, and its trial, of a number of steps at a position in the first grid of the search.

    Raises:
        UsageError: both rates give the same values.
    """
    if first.seconds > QUICK:
        return
    lowest = first
    left = BUDGET
    while _is_same(lowest, run):
        if lowest.steps >= longest:
            _check_values(lowest, spec)
            return
        left -= 2 * lowest.seconds
        if left < 0:
            return
        steps = min(GROWTH * lowest.steps, longest)
        lowest = run(steps, LOWEST)


def _is_same(lowest: Run, run: Callable[[int, int], Run]) -> bool:
    """Whether a run with the highest rate has finished with the same values as one with the lowest rate."""
    if lowest.record is None or lowest.record.status != "finished":
        return False
    try:
        highest = run(lowest.steps, HIGHEST)
    except UsageError:  # a program may stop where the training diverges
        return False
    return highest.record is not None and highest.reported == lowest.reported


def _check_values(lowest: Run, spec: Callable[[int, int], TrialSpec]) -> None:
    """Raise `UsageError` if the values of a run are a proof that its program ignores the rate."""
    assert lowest.record is not None
    values = Values.of(lowest.record)
    if values.exact(FEW_EXAMPLES):
        trial = spec(lowest.steps, LOWEST)
        rates = [trial.lr, spec(lowest.steps, HIGHEST).lr]
        raise ProgramError(ignored_rate(trial, rates, values))

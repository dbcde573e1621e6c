"""The time that is left of a study, from what its ended trials took."""

from collections import defaultdict
from collections.abc import Mapping

from fairbench.study.record import Record, Seconds


def counted_steps(record: Record, planned: int) -> int:
    """The steps with which an ended trial counts: if it finished all planned ones, otherwise those until it diverged.

    A program may finish with fewer steps than planned. They count as all.
    """
    if record.status == "finished":
        return planned
    assert record.result
    return record.result.steps


class Pace:
    """What the ended trials of a study took: the seconds of their steps, and their rest.

    The rest of a trial is all that is not a step, such as start and evaluations. In a short trial of a search the rest
    is a large part. So the two are kept apart: seconds of whole trials by their steps would make the longer final
    trials seem too long.

    Args:
        expected: the seconds of a step in each arena, as measured before the study; empty if they are not known.
        start: the seconds from the start of a trial to its first step, as measured before the study.
    """

    def __init__(self, expected: Mapping[str, float], start: float = 0.0) -> None:
        self._expected = expected
        self._start = start
        self._training: dict[str, float] = defaultdict(float)
        self._steps: dict[str, int] = defaultdict(int)
        self._rest = 0.0
        self._trials = 0

    def add(self, arena: str, steps: int, seconds: Seconds, whole: float) -> None:
        """Add an ended trial with its number of steps, its seconds by phase and the seconds of the whole trial."""
        phases = seconds.data + seconds.forward + seconds.backward + seconds.step + seconds.log
        training = phases * (1 - self._share_of_start(arena, steps))
        self._training[arena] += training
        self._steps[arena] += steps
        self._rest += max(whole - training, 0.0)
        self._trials += 1

    def _share_of_start(self, arena: str, steps: int) -> float:
        """The share of the start in the seconds of a trial's steps. It is 0 unless the trial is that of a program."""
        expected = self._start + steps * self._expected.get(arena, 0.0)
        if not expected:
            return 0.0
        return self._start / expected

    def left(self, steps_left: Mapping[str, int], trials_left: int, workers: int) -> float | None:
        """The seconds until a study is complete; None if nothing is known of a step.

        (sum over arenas of steps left * seconds of a step + trials left * mean rest of a trial) / workers

        Before the first trial has ended, the measured start takes the place of the mean rest.
        """
        if not any(self._steps.values()) and not self._expected:
            return None
        training = sum(steps * self._step_seconds(arena) for arena, steps in steps_left.items())
        rest = self._rest / self._trials if self._trials else self._start
        return (training + trials_left * rest) / workers

    def _step_seconds(self, arena: str) -> float:
        """The mean seconds of a step in the ended trials of an arena.

        Without such a trial: the expected seconds, multiplied by the ratio of taken to expected seconds in the other
        arenas, as far as they have trials. Without expected seconds: the mean over the steps of all other arenas.
        """
        if self._steps[arena]:
            return self._training[arena] / self._steps[arena]
        steps = sum(self._steps.values())
        training = sum(self._training.values())
        if arena not in self._expected:
            return training / steps
        expected = sum(self._steps[other] * self._expected[other] for other in self._expected)
        if not expected:
            return self._expected[arena]
        return self._expected[arena] * training / expected

"""The time that is left of a study, from what its ended trials took."""

from collections import defaultdict
from collections.abc import Mapping

from fairbench.study.record import Record, Seconds


def counted_steps(record: Record, planned: int) -> int:
    """The steps of an ended trial: the planned ones, unless it diverged. A program may end before them."""
    if record.status == "finished":
        return planned
    assert record.result
    return record.result.steps


class Pace:
    """What the ended trials of a study took: the seconds of their steps, and the rest, such as start and evaluations.

    The rest of a short trial of a search is a large part of it, so the seconds of a whole trial would make the longer
    final trials seem too long.

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
        training = seconds.data + seconds.forward + seconds.backward + seconds.step + seconds.log
        self._training[arena] += training
        self._steps[arena] += steps
        self._rest += max(whole - training, 0.0)
        self._trials += 1

    def left(self, steps_left: Mapping[str, int], trials_left: int, workers: int) -> float | None:
        """The seconds until a study is complete; None if nothing is known of a step.

        (sum over arenas of steps left * seconds of a step + trials left * mean rest) / workers

        Before the first trial has ended, the rest is the measured start.
        """
        if not any(self._steps.values()) and not self._expected:
            return None
        training = sum(left * self._step(arena) for arena, left in steps_left.items())
        rest = self._rest / self._trials if self._trials else self._start
        return (training + trials_left * rest) / workers

    def _step(self, arena: str) -> float:
        """The seconds of a step in an arena.

        They are those of its ended trials. Without one they are the expected ones, scaled by what the trials of other
        arenas took in place of the expected; if none is expected, the mean of the other arenas.
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

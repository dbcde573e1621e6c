"""The arms of an arena. An arm holds the values of an optimizer's runs by seed, or only their summary."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fairbench.analysis.statistics.significance import Summary, summarize
from fairbench.analysis.tables.cell_numbers import is_lost
from fairbench.analysis.tables.readings import Reading
from fairbench.common.errors import UsageError


@dataclass
class Arm:
    """The runs of an optimizer in an arena. A run is lost if it diverged or has no value.

    Attributes:
        values: the value of each run by its seed. NaN: the run diverged. None: it has no value for another reason.
        given: the summary that a table has in place of runs; None for an arm with runs.
        early: where each run ended that ended before others, by its seed, such as "1400 of 2000"; a table without
            seeds has an empty one.
    """

    values: dict[str, float | None] = field(default_factory=dict)
    given: Summary | None = None
    early: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of runs."""
        if self.given is not None:
            return self.given.n
        return len(self.values)

    @property
    def diverged(self) -> int:
        """The number of runs that diverged."""
        return sum(value is not None and math.isnan(value) for value in self.values.values())

    @property
    def without_value(self) -> int:
        """The number of runs that have no value and did not diverge."""
        return sum(value is None for value in self.values.values())

    @property
    def finished(self) -> int:
        """The number of runs with a value."""
        return self.size - self.diverged - self.without_value

    @property
    def finite_values(self) -> list[float]:
        """The values of the runs that are not lost, or the mean of a summary."""
        if self.given is not None:
            return [self.given.mean]
        return [value for value in self.values.values() if value is not None and not math.isnan(value)]

    def values_of(self, seeds: Sequence[str]) -> list[float]:
        """The values of some seeds, each of which must have a value."""
        values = []
        for seed in seeds:
            value = self.values[seed]
            assert value is not None
            values.append(value)
        return values

    def summary(self) -> Summary:
        """The summary of the runs, of which none may be lost."""
        if self.given is not None:
            return self.given
        return summarize(self.values_of([*self.values]))


def arms_of(readings: Sequence[Reading], notes: list[str]) -> dict[str, Arm]:
    """The arm of each optimizer in an arena. Each run must have only one value.

    Args:
        readings: the readings of the arena.
        notes: messages for the user, to which this function adds its own.

    Raises:
        UsageError: a run has two values, a summary is not complete, or only some values have a percent sign.
    """
    arms: dict[str, Arm] = {}
    readings_of_arms: dict[str, dict[str, Reading]] = {}
    for reading in readings:
        arm = arms.setdefault(reading.optimizer, Arm())
        seed = reading.seed
        if reading.is_summary:
            seed = ""  # it is of all seeds, and is kept under an empty one
        has_summary = reading.is_summary and not reading.is_lost
        earlier_readings = readings_of_arms.setdefault(reading.optimizer, {})
        earlier = earlier_readings.get(seed)
        if earlier_readings and (has_summary or arm.given is not None):
            # a summary is of all runs of the arm, so it must be the only row of the arm
            earlier = next(iter(earlier_readings.values()))
        if earlier is not None:
            repeated = f"seed {seed} of {reading.optimizer}" if seed else reading.optimizer
            raise reading.repeated_error(earlier, repeated)
        earlier_readings[seed] = reading
        if has_summary:
            if reading.pair is not None:
                notes.append("the second number of a cell was taken as the standard deviation")
            arm.given = reading.summary()
        else:
            arm.values[seed] = reading.value()
        if reading.early:
            arm.early[reading.seed if reading.entry.seed is not None else ""] = reading.early
    _check_percent_signs(readings)
    return arms


def _check_percent_signs(readings: Sequence[Reading]) -> None:
    """Refuse readings of which only some have a percent sign."""
    percent_at: list[str] = []
    plain_at: list[str] = []
    for reading in readings:
        cells = [reading.texts["value"]]
        if reading.is_summary:
            cells.append(reading.texts.get("std", ""))
        for text in cells:
            if is_lost(text):
                continue
            if "%" in text:
                percent_at.append(reading.location)
            else:
                plain_at.append(reading.location)
    if not percent_at or not plain_at:
        return
    if len(percent_at) < len(plain_at):
        raise UsageError(f"{percent_at[0]}: has a percent sign, but {plain_at[0]} has none; write all alike")
    raise UsageError(f"{plain_at[0]}: has no percent sign, but {percent_at[0]} has one; write all alike")

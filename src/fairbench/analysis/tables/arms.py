"""The arms of an arena: the values of an optimizer's runs by seed, or only their summary."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fairbench.analysis.statistics.significance import Summary, summarize
from fairbench.analysis.tables.cell_numbers import is_lost
from fairbench.analysis.tables.readings import Reading
from fairbench.common.errors import UsageError


@dataclass
class Arm:
    """The runs of an optimizer in an arena.

    Attributes:
        values: the values by seed; NaN stands for a run that diverged, None for another one without a value.
        given: the summary, where the table has no runs.
    """

    values: dict[str, float | None] = field(default_factory=dict)
    given: Summary | None = None

    @property
    def size(self) -> int:
        """The number of runs."""
        return len(self.values) if self.given is None else self.given.n

    @property
    def diverged(self) -> int:
        """The number of runs that diverged."""
        return sum(value is not None and math.isnan(value) for value in self.values.values())

    @property
    def without_value(self) -> int:
        """The number of other runs without a value."""
        return sum(value is None for value in self.values.values())

    @property
    def finished(self) -> int:
        """The number of runs with a value."""
        return self.size - self.diverged - self.without_value

    def values_of(self, seeds: Sequence[str]) -> list[float]:
        """The values of some seeds, of an arm without lost runs."""
        return [self.values[seed] or 0.0 for seed in seeds]

    def summary(self) -> Summary:
        """The summary of an arm without lost runs."""
        if self.given is not None:
            return self.given
        return summarize(self.values_of([*self.values]))


def arms_of(readings: Sequence[Reading], notes: list[str]) -> dict[str, Arm]:
    """The arms of an arena by their optimizers, of the one value of each run.

    Raises:
        UsageError: a run has two values, a summary is not complete, or only some values have a percent sign.
    """
    arms: dict[str, Arm] = {}
    seen: dict[tuple[str, str], Reading] = {}
    for reading in readings:
        arm = arms.get(reading.optimizer)
        seed = "" if reading.is_summary else reading.seed
        # a summary stands for all seeds
        key = (reading.optimizer, seed if arm is None or arm.given is None else "")
        if key in seen:
            what = f"seed {seed} of {reading.optimizer}" if seed else reading.optimizer
            raise reading.repeated(seen[key], what)
        seen[key] = reading
        if reading.is_summary and not reading.is_lost:
            if reading.pair is not None:
                notes.append("the second number of a cell was taken as the standard deviation")
            arms[reading.optimizer] = Arm(given=reading.summary())
        else:
            arms.setdefault(reading.optimizer, Arm()).values[seed] = reading.value()
    _check_percent_signs(readings)
    return arms


def _check_percent_signs(readings: Sequence[Reading]) -> None:
    percent_at = ""
    plain_at = ""
    for reading in readings:
        cells = [reading.texts["value"]]
        if reading.is_summary:
            cells.append(reading.texts.get("std", ""))
        for text in cells:
            if is_lost(text):
                continue
            if "%" in text:
                percent_at = reading.location
            else:
                plain_at = reading.location
    if percent_at and plain_at:
        raise UsageError(f"{plain_at}: has no percent sign, but {percent_at} has one; write all alike")

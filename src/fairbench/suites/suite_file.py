"""The schema of a suite's file, which has what `fairbench.suites.expansion` makes further arenas of."""

from dataclasses import dataclass, field
from typing import Any

from fairbench.suites.arenas import Ladder
from fairbench.suites.schema import Suite


@dataclass(frozen=True)
class SuiteFile(Suite):
    """A suite as its file has it; `fairbench.suites.expansion` makes further arenas of these.

    Attributes:
        ladder: the sizes and horizons of an arena, by its name.
        horizons: multiples of each arena's steps with which the reference is trained.
        schedules: learning-rate schedules with each of which every optimizer is trained.
        shock: shocks by name, with each of which every arena gets a disturbed copy.
    """

    ladder: dict[str, Ladder] = field(default_factory=dict)
    horizons: list[float] = field(default_factory=list)
    schedules: list[str] = field(default_factory=list)
    shock: dict[str, dict[str, Any]] = field(default_factory=dict)

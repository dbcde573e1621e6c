"""The arenas of a table: their arms, and how the values of each are judged."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairbench.analysis.tables.arms import Arm, arms_of
from fairbench.analysis.tables.cell_numbers import value_of
from fairbench.analysis.tables.column_names import direction_of
from fairbench.analysis.tables.curves import one_of_each_run
from fairbench.analysis.tables.entries import Entries
from fairbench.analysis.tables.question import Question
from fairbench.analysis.tables.readings import Reading, readings_of
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some
from fairbench.common.grouping import grouped

BETTER = {"min": ("lower", "min", "minimize", "false"), "max": ("higher", "max", "maximize", "true")}
"""The words for each direction in a column `better`, `direction` or `higher_is_better`."""


@dataclass(frozen=True)
class ArenaTable:
    """The arms of an arena by their optimizers, which values are better, and the largest difference of no matter."""

    arena: str
    direction: str
    margin: float | None
    arms: Mapping[str, Arm]


def arenas_of(entries: Entries, asked: Question, notes: list[str]) -> list[ArenaTable]:
    """The arenas that have any value, in the order of the table.

    Raises:
        UsageError: a cell is no number or may be two, or the rows of an arena contradict each other.
    """
    readings = readings_of(entries.entries)
    metric = entries.metric
    if not asked.better and "better" not in readings[0].texts:
        word = direction_of(metric)
        if word:
            notes.append(f"{word} {metric} is better, by its name")
    arenas = grouped((reading.entry.arena, reading) for reading in readings)
    empty = [arena for arena, here in arenas.items() if not any(_says_anything(reading) for reading in here)]
    if 0 < len(empty) < len(arenas):
        notes.append(f"{plural(len(empty), 'arena')} without a value of {metric} skipped: {some(empty)}")
        for arena in empty:
            del arenas[arena]
    found = []
    for arena, here in arenas.items():
        direction = _direction(here, asked, metric)
        margin = _margin(here, asked)
        runs = one_of_each_run(here, asked.at, direction, notes)
        arms = arms_of(runs, notes)
        found.append(ArenaTable(arena, direction, margin, arms))
    return found


def _says_anything(reading: Reading) -> bool:
    return reading.has_text or "state" in reading.texts


def _direction(readings: Sequence[Reading], asked: Question, metric: str) -> str:
    """Which direction of the values is better in an arena, "min" or "max"."""
    if asked.better:
        text = asked.better
        location = "--better"
    else:
        text, location = _common_text(readings, "better")
        text = text or direction_of(metric)
    if not text:
        raise UsageError(f"{location}: which values are better? Give --better lower or higher, or a column better")
    for direction, words in BETTER.items():
        if text in words:
            return direction
    raise UsageError(f"{location}: better must be lower or higher, got {text!r}")


def _margin(readings: Sequence[Reading], asked: Question) -> float | None:
    """The margin that is asked for, or that all rows of an arena have."""
    text = ""
    location = "--margin"
    margin = asked.margin
    if margin is None:
        text, location = _common_text(readings, "margin")
        margin = value_of(text, readings[0].sign)
    if margin is not None and not 0 < margin < math.inf:
        raise UsageError(f"{location}: the margin must be a positive number, got {text or margin}")
    return margin


def _common_text(readings: Sequence[Reading], role: str) -> tuple[str, str]:
    """The text of a role in all rows of an arena, empty without one, and where it stands."""
    locations = grouped((reading.texts.get(role, "").casefold(), reading.location) for reading in readings)
    (text, found), *others = locations.items()
    if others:
        _, elsewhere = others[0]
        arena = readings[0].entry.arena
        raise UsageError(f"{elsewhere[0]}: {role} must be the same in all rows of arena {arena}")
    return text, found[0]

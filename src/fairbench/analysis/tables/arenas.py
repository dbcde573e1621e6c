"""The arenas of a table: their arms, which of their values are better, and their margins."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairbench.analysis.tables.arms import Arm, arms_of
from fairbench.analysis.tables.cell_numbers import says_something, value_of
from fairbench.analysis.tables.curves import one_of_each_run
from fairbench.analysis.tables.entries import Entries
from fairbench.analysis.tables.metric_names import direction_of
from fairbench.analysis.tables.question import Question, Unanswered
from fairbench.analysis.tables.readings import Reading, readings_of
from fairbench.analysis.tables.suspicions import (
    check_units,
    notes_on_equal_values,
    notes_on_other_metrics,
    notes_on_states,
)
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some
from fairbench.common.grouping import grouped

BETTER = {"min": ("lower", "min", "minimize", "false"), "max": ("higher", "max", "maximize", "true")}
"""The words for each direction in a column `better`, `direction` or `higher_is_better`."""


@dataclass(frozen=True)
class ArenaTable:
    """The arms of an arena by their optimizers.

    Attributes:
        direction: which values are better, "min" or "max".
        said_by_table: whether a column or an arrow in a heading says the direction.
        margin: the largest difference that does not matter; None without one.
    """

    arena: str
    direction: str
    said_by_table: bool
    margin: float | None
    arms: Mapping[str, Arm]


def arenas_of(entries: Entries, asked: Question, notes: list[str]) -> list[ArenaTable]:
    """The arenas that have any value, in the order of the table; all of them if none has one.

    Args:
        asked: the question of the user.
        notes: messages for the user, to which this function adds its own.

    Raises:
        UsageError: a cell is not a number or may be two, or the rows of an arena contradict each other.
    """
    metric = entries.metric
    all_readings = readings_of(entries.entries)
    notes += notes_on_states(all_readings)
    readings_of_arenas = grouped((reading.entry.arena, reading) for reading in all_readings)
    empty = _arenas_without_result(readings_of_arenas)
    if len(empty) == len(readings_of_arenas):
        empty = []  # no arena is skipped: all its runs are lost, and are judged so
    if empty:
        notes.append(f"{plural(len(empty), 'arena')} without a value of {metric} skipped: {some(empty)}")
    arenas = []
    for arena, readings in readings_of_arenas.items():
        if arena in empty:
            continue
        direction = _direction(readings, asked, metric)
        margin = _margin(readings, asked)
        runs = one_of_each_run(readings, asked.at, direction, notes)
        arms = arms_of(runs, notes)
        check_units(runs, metric, direction, notes)
        notes += notes_on_other_metrics(readings, runs, entries)
        notes += notes_on_equal_values(runs)
        said_by_table = bool(readings[0].texts.get("better"))
        table = ArenaTable(arena=arena, direction=direction, said_by_table=said_by_table, margin=margin, arms=arms)
        arenas.append(table)
    return arenas


def _arenas_without_result(readings_of_arenas: Mapping[str, Sequence[Reading]]) -> list[str]:
    """The arenas in which no row tells how its run ended."""
    empty = []
    for arena, readings in readings_of_arenas.items():
        if not any(_has_result(reading) for reading in readings):
            empty.append(arena)
    return empty


def _has_result(reading: Reading) -> bool:
    """Whether a row tells how its run ended: by a value, or by a state, as of a run that crashed."""
    return reading.has_text or says_something(reading.texts.get("state", ""))


def _direction(readings: Sequence[Reading], asked: Question, metric: str) -> str:
    """Which values are better in an arena, "min" or "max", by the user, a column or the name of the metric."""
    if asked.better:
        text = asked.better
        location = "--better"
    else:
        text, location = _common_text(readings, "better")
        text = text or direction_of(metric)
    if not text:
        raise Unanswered(
            f"{location}: which values are better? Give --better lower or higher, or a column better", better="higher"
        )
    for direction, words in BETTER.items():
        if text in words:
            return direction
    raise UsageError(f"{location}: better must be lower or higher, got {text!r}")


def _margin(readings: Sequence[Reading], asked: Question) -> float | None:
    """The margin that the user gives, or that all rows of an arena have; None without one."""
    text = ""
    location = "--margin"
    margin = asked.margin
    if margin is None:
        text, location = _common_text(readings, "margin")
        decimal_sign = readings[0].sign
        margin = value_of(text, decimal_sign)
    if margin is not None and not 0 < margin < math.inf:
        raise UsageError(f"{location}: the margin must be a positive number, got {text or margin}")
    return margin


def _common_text(readings: Sequence[Reading], role: str) -> tuple[str, str]:
    """The text that all rows of an arena have in a role, in lower case, and the location of the first.

    The text is empty if the table has no such role. Raises `UsageError` if two rows have different texts.
    """
    first = readings[0]
    text = first.texts.get(role, "").casefold()
    for reading in readings:
        if reading.texts.get(role, "").casefold() != text:
            arena = first.entry.arena
            raise UsageError(f"{reading.location}: {role} must be the same in all rows of arena {arena}")
    return text, first.location

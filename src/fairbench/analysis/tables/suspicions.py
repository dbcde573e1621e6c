"""What a table may have gotten wrong: fractions among percentages, and runs of which another metric diverged."""

import math
from collections.abc import Collection, Sequence
from statistics import median

from fairbench.analysis.tables.cell_numbers import FINISHED, given_texts, is_lost, value_of, words
from fairbench.analysis.tables.entries import Entries
from fairbench.analysis.tables.metric_names import direction_of, is_percentage
from fairbench.analysis.tables.readings import Reading
from fairbench.common.errors import UsageError
from fairbench.common.exact_values import are_equal_without_chance
from fairbench.common.formatting import plural, some
from fairbench.common.grouping import grouped

GAP = 10.0
"""The smallest ratio between percentages and fractions that are told apart."""
SURE = (50.0, 200.0)
"""The ratios of their medians that only mixed units explain, if the metric is a percentage."""
POSSIBLE = (20.0, 1000.0)
"""The ratios of their medians that mixed units may explain."""


UNNAMED = "value"
"""The name of a metric that has none, such as that of a table with a column for each seed."""


def check_units(runs: Sequence[Reading], metric: str, direction: str, notes: list[str]) -> None:
    """Refuse the fractions of an arena that stand among percentages, or add a note where it is not sure.

    Args:
        runs: a reading of each run in an arena.
        metric: the metric.
        direction: "min" or "max".
        notes: messages for the user, to which this function adds its own.

    Raises:
        UsageError: values of a metric that is a percentage, or of one without a name whose higher values are better,
            differ by a factor of about 100.
    """
    values = {index: run.value() for index, run in enumerate(runs)}
    finite = {index: value for index, value in values.items() if value is not None and math.isfinite(value)}
    if not finite or all("%" in runs[index].texts["value"] for index in finite):
        return  # the signs say the unit
    if min(finite.values()) < 0 or max(finite.values()) > 100:
        return
    fractions = {index: value for index, value in finite.items() if 0 < value < 1}
    percentages = {index: value for index, value in finite.items() if value > 1}
    if not fractions or not percentages:
        return
    if min(percentages.values()) < GAP * max(fractions.values()):
        return
    ratio = median(percentages.values()) / median(fractions.values())
    few = fractions
    many = percentages
    what = "fractions among percentages"
    if len(percentages) < len(fractions):
        few = percentages
        many = fractions
        what = "percentages among fractions"
    names = some(list(dict.fromkeys(_name(runs[index]) for index in few)))
    first = next(iter(few))
    arena = runs[first].entry.arena
    place = "" if arena == metric else f" in {arena}"  # without arenas, the metric takes the place of one
    message = f"{metric} of {names}{place} is {_span(few.values())}, others are {_span(many.values())}: {what}"
    is_sure = SURE[0] <= ratio <= SURE[1]
    if is_percentage(metric) and is_sure:
        remedy = "write all in one unit, or a percent sign behind all values if they are right"
        raise UsageError(f"{runs[first].location}: {message}; {remedy}")
    if metric == UNNAMED and direction == "max" and is_sure:
        remedy = "write all in one unit, or in a column with the name of the metric if they are right"
        raise UsageError(f"{runs[first].location}: {message}; {remedy}")
    is_known_other = bool(direction_of(metric)) and not is_percentage(metric)
    lowest, highest = POSSIBLE if is_percentage(metric) else SURE
    if not is_known_other and lowest <= ratio <= highest:
        notes.append(f"check the units: {message}?")


def _span(values: Collection[float]) -> str:
    """The lowest and the highest of some values in words, or the only one."""
    lowest = min(values)
    highest = max(values)
    if lowest == highest:
        return f"{lowest:g}"
    return f"{lowest:g} to {highest:g}"


def _name(run: Reading) -> str:
    """The name of a run: its optimizer, and its seed if it has one."""
    if run.entry.seed is None:
        return run.optimizer
    return f"{run.optimizer} seed {run.seed}"


def notes_on_other_metrics(readings: Sequence[Reading], runs: Sequence[Reading], entries: Entries) -> list[str]:
    """Notes on runs that have a value of the judged metric, while another metric in their last row is not finite.

    Args:
        readings: all readings of an arena.
        runs: the reading of each run that is judged.
    """
    last_reading = {reading.run: reading for reading in readings}
    if len(last_reading) < len(runs):  # without seeds, each row is a run
        last_reading = {(run.optimizer, run.location): run for run in runs}
    judged = [run for run in runs if not run.is_lost]
    names_of = grouped(
        (column, _name(run))
        for run in judged
        for column in entries.other_metrics
        if _diverged(last_reading.get(run.run, run), column)
    )
    notes = []
    for column, names in names_of.items():
        place = judged[0].entry.arena
        notes.append(f"{column} is not finite in {place} for {some(names)}; only {entries.metric} is judged")
    return notes


def _diverged(reading: Reading, column: str) -> bool:
    """Whether the cell of a column says that the run diverged."""
    text = reading.entry.row.cells.get(column, "")
    try:
        value = value_of(text, reading.sign)
    except ValueError:
        return False  # a column that is not judged may have any text
    return value is not None and math.isnan(value)


def notes_on_equal_values(runs: Sequence[Reading]) -> list[str]:
    """Notes on optimizers all of whose runs have one value, with too many digits for chance.

    Args:
        runs: a reading of each run that is judged in an arena.
    """
    values_of = grouped((run.optimizer, run.value()) for run in runs)
    notes = []
    for optimizer, values in values_of.items():
        known = [value for value in values if value is not None]
        if are_equal_without_chance(known):
            place = runs[0].entry.arena
            notes.append(
                f"all {len(known)} runs of {optimizer} in {place} have the value {known[0]:.10g}: did the seed reach "
                "the program? If not, they are no more than one run"
            )
    return notes


def notes_on_states(readings: Sequence[Reading]) -> list[str]:
    """A note on the runs with a value whose state has another word than those for a run that is lost or finished."""
    states = [reading.texts.get("state", "") for reading in readings if reading.has_text]
    unknown = [state for state in given_texts(states) if not is_lost(state) and words(state) not in FINISHED]
    if not unknown:
        return []
    quoted = some([repr(state) for state in dict.fromkeys(unknown)])
    return [f"{plural(len(unknown), 'run')} with a value and the state {quoted} counted as finished"]

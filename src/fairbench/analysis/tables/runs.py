"""What tells the runs of an arm apart: each is a run of the same settings, or the table is refused."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fairbench.analysis.tables.cell_numbers import given_texts, is_lost, is_number
from fairbench.analysis.tables.column_names import is_incidental, is_varied
from fairbench.analysis.tables.columns import Roles, has_numbers
from fairbench.analysis.tables.labels import are_sizes
from fairbench.analysis.tables.metric_names import is_metric
from fairbench.analysis.tables.question import Unanswered
from fairbench.analysis.tables.readers.nested import LEVEL
from fairbench.analysis.tables.readers.sheet import Row, Sheet
from fairbench.analysis.tables.remarks import is_mostly_empty, is_unique, notes_on_remarks
from fairbench.analysis.tables.seed_names import are_seeds
from fairbench.common.errors import UsageError
from fairbench.common.formatting import some
from fairbench.common.grouping import grouped

FEWEST_ORDERS = 20
"""With fewer possible orders of the rows within the arms, a common trend may be chance. Four rows have 24."""
TREND = 0.85
"""The rank correlation of values with their order from which they may be a curve."""
ADDED = "its "
"""How the name of a column begins that is added to a table."""
PLACE = f"{ADDED}place"
"""The name of the column that is added for the place of a row among those of its run."""
Texts = tuple[str, ...]
"""The texts of a row in some columns."""


def check_runs(sheet: Sheet, roles: Roles, columns: Sequence[str], row_role: str) -> Sheet:
    """Refuse a table whose rows differ in a way that the roles do not explain.

    Args:
        columns: the columns that have no role.
        row_role: the role that the user gives to the order of the rows, or empty.

    Returns:
        The table with notes on the remarks that are left out.
    """
    arm_columns = [*roles.get("optimizer", ()), *roles.get("arena", ()), *roles.get("metric", ())]
    run_columns = [*arm_columns, *roles.get("seed", ())]
    has_seeds_or_steps = "seed" in roles or "step" in roles
    if has_seeds_or_steps or any(role in roles for role in ("std", "sem", "n")):
        _check_repeats(sheet, roles, columns, run_columns)
    if "step" in roles and "seed" not in roles:
        return sheet  # each arm is one run, in which settings may change from step to step
    arms = grouped((_texts_in(row, arm_columns), row) for row in sheet.rows)
    for column in columns:
        if not _varies(sheet, column, arms, run_columns):
            continue
        texts = [[row.cells[column] for row in rows] for rows in arms.values()]
        if _is_unexplained(sheet, column, texts, has_seeds_or_steps=has_seeds_or_steps):
            raise _difference_error(sheet, roles, [column], are_repeats=False)
    if not has_seeds_or_steps and not row_role:
        _check_order(sheet, roles, arms)
    for note in notes_on_remarks(sheet, columns):
        sheet = sheet.with_note(note)
    return sheet


def _is_unexplained(sheet: Sheet, column: str, texts: Sequence[Sequence[str]], *, has_seeds_or_steps: bool) -> bool:
    """Whether a column in which the runs of an arm differ may be a setting, rather than a result or a name.

    Args:
        texts: the texts of the column in each arm.
        has_seeds_or_steps: whether a column of seeds or steps tells the runs of an arm, or the rows of its run, apart.
    """
    if is_varied(column) or column.startswith(LEVEL):
        return True
    if is_incidental(column) or is_metric(column):
        return False
    if has_numbers(sheet, column):
        return not has_seeds_or_steps and _is_crossed(texts)
    return _are_variants(texts, has_seeds_or_steps=has_seeds_or_steps)


def _check_repeats(sheet: Sheet, roles: Roles, columns: Sequence[str], run_columns: Sequence[str]) -> None:
    """Refuse several rows of one run, or of one step of it, if columns tell them apart.

    Args:
        columns: the columns that have no role.
        run_columns: the columns that tell runs apart.
    """
    rows = sheet.rows
    if "step" in roles:
        values = roles.get("value", roles.get("mean", ()))
        # trackers log other metrics at the same step
        rows = [row for row in rows if any(_texts_in(row, values))]
    point_columns = [*run_columns, *roles.get("step", ())]
    points = grouped((_texts_in(row, point_columns), row) for row in rows)
    telling: list[str] = []  # columns that tell rows of the same point apart
    for column in _by_likelihood(sheet, [*columns, *roles.get("ignore", ())]):
        if all(len(repeated) == 1 for repeated in points.values()):
            break
        # a point is a run, or a step of a run, with the texts of the columns in `telling`
        finer = grouped(((*point, row.cells[column]), row) for point, found in points.items() for row in found)
        if len(finer) > len(points):
            telling.append(column)
            points = finer
    if telling:
        raise _difference_error(sheet, roles, telling, are_repeats=True)


def _by_likelihood(sheet: Sheet, columns: Sequence[str]) -> list[str]:
    """The columns that may tell variants apart, the likely ones first; without results.

    Settings come first, then words, numbers that repeat, and what identifies a run.
    """
    settings: list[str] = []
    words: list[str] = []
    repeating_numbers: list[str] = []
    incidental: list[str] = []
    for column in columns:
        texts = sheet.column(column)
        is_result = is_metric(column) or 2 * len(set(texts)) > len(texts)
        if is_mostly_empty(sheet, column):
            continue  # remarks
        if is_varied(column) or column.startswith(LEVEL):
            settings.append(column)
        elif is_incidental(column):
            incidental.append(column)
        elif not has_numbers(sheet, column):
            words.append(column)
        elif not is_result:
            repeating_numbers.append(column)
    return [*settings, *words, *repeating_numbers, *incidental]


def _texts_in(row: Row, columns: Sequence[str]) -> Texts:
    """The texts of a row in some columns; empty for a column that it lacks."""
    return tuple(row.cells.get(column, "") for column in columns)


def _varies(sheet: Sheet, column: str, arms: Mapping[Texts, Sequence[Row]], run_columns: Sequence[str]) -> bool:
    """Whether the runs of an arm differ in a column. A setting that changes during a run does not count."""
    if not any(len({row.cells[column] for row in rows}) > 1 for rows in arms.values()):
        return False
    runs = grouped((_texts_in(row, run_columns), row.cells[column]) for row in sheet.rows)
    are_single_rows = len(runs) == len(arms)
    return are_single_rows or all(len(set(texts)) == 1 for texts in runs.values())


def _is_crossed(texts: Sequence[Sequence[str]]) -> bool:
    """Whether two or more arms all have the same texts in a column, as they would have the same seeds or arenas.

    A number that an arm has twice is not a seed, so then they are not crossed.
    """
    if any(len(set(arm_texts)) < len(arm_texts) for arm_texts in texts):
        return False
    different_sets = set(map(frozenset, texts))
    return len(texts) > 1 and len(different_sets) == 1


def _are_variants(texts: Sequence[Sequence[str]], *, has_seeds_or_steps: bool) -> bool:
    """Whether the words of a column may tell variants of the arms apart, as those of a schedule do.

    Texts of JSON, and words that no other row of the arm has, name or describe single runs; empty cells say nothing.
    Without seeds, all words of many rows must differ for that.
    """
    words = [text for arm_texts in texts for text in arm_texts if text]
    if all(text.startswith(("{", "[")) for text in words):
        return False
    if has_seeds_or_steps:
        return any(len(set(arm_texts)) > 1 and _repeats(given_texts(arm_texts)) for arm_texts in texts)
    return _repeats(words) or len(words) <= 2 * len(texts)


def _repeats(texts: Sequence[str]) -> bool:
    """Whether a text is there twice."""
    return len(set(texts)) < len(texts)


def _difference_error(sheet: Sheet, roles: Roles, columns: Sequence[str], *, are_repeats: bool) -> UsageError:
    """The error for columns in which the runs of an arm differ.

    Args:
        are_repeats: whether they are the same run, or the same step of it, so that no column can be ignored.
    """
    joined = "+".join(columns)
    ways = []
    are_remarks = any(is_mostly_empty(sheet, column) for column in columns)
    are_unique = any(is_unique(sheet, column) for column in columns)
    for role in ("arena", "optimizer"):
        named = roles.get(role, [])
        is_added = any(name.startswith(ADDED) for name in named)  # the names of columns have the role
        if not is_added and not are_remarks and not (role == "arena" and are_unique):
            ways.append(f'{role}="{"+".join([*named, *columns])}"')
    if "seed" not in roles and not are_repeats and _may_be_seeds(sheet, columns):
        ways.insert(0, f'seed="{joined}"')
    if are_repeats and "step" not in roles and len(columns) == 1 and all(map(str.isdigit, sheet.column(joined))):
        ways.insert(0, f'step="{joined}"')
    if not are_repeats:
        ways.append(f'ignore="{joined}"')
    if are_remarks:
        ways.append(f'state="{columns[0]}" if it says that runs are lost')
    given = ", or ".join(ways)
    message = f"{sheet.name}: runs of one optimizer differ in {some(columns)}; give --columns {given}"
    return Unanswered(message, columns={"ignore": "+".join([*roles.get("ignore", []), *columns])})


def _may_be_seeds(sheet: Sheet, columns: Sequence[str]) -> bool:
    """Whether only one column differs, and its texts may be seeds rather than a setting."""
    if len(columns) > 1:
        return False
    column = columns[0]
    texts = sheet.column(column)
    return not is_varied(column) and are_seeds(texts) and not are_sizes(texts)


def _check_order(sheet: Sheet, roles: Roles, arms: Mapping[Texts, Sequence[Row]]) -> None:
    """Refuse rows without seeds whose values rise or fall in every arm, as those of a curve do.

    So few rows that their order may be chance are not refused.
    """
    judged_columns = roles.get("value", roles.get("mean", [""]))
    column = judged_columns[0]
    series = []
    for rows in arms.values():
        numbers = [_number(row.cells[column]) for row in rows if row.cells.get(column)]
        if len(numbers) > 1:
            series.append(numbers)
    log_orders = sum(math.lgamma(len(numbers) + 1) for numbers in series)
    if log_orders < math.log(FEWEST_ORDERS):
        return
    trends = [_trend(numbers) for numbers in series]
    if min(trends) >= TREND or max(trends) <= -TREND:
        word = "rise" if min(trends) > 0 else "fall"
        raise UsageError(
            f"{sheet.name}: the values {word} from row to row, as those of a curve; give --columns step=rows with --at "
            "last if the rows are steps, or --columns seed=rows if they are runs"
        )


def _number(text: str) -> float:
    """A rough number of a cell, which is good enough for the order; 0 for a lost run, or for two numbers in a cell."""
    if is_lost(text) or not is_number(text):
        return 0.0
    digits = text.replace(",", ".").strip("%$ ")
    try:
        return float(digits)
    except ValueError:
        return 0.0


def _trend(values: Sequence[float]) -> float:
    """Spearman's correlation of values with their order, without a correction for ties.

        rho = 1 - 6 sum (r_i - i)^2 / (n (n^2 - 1)),    r_i = rank of value i

    Returns:
        a number from -1 for falling values to 1 for rising ones.
    """
    order = sorted(range(len(values)), key=lambda index: values[index])
    squares = sum((rank - index) ** 2 for rank, index in enumerate(order))
    n = len(values)
    return 1 - 6 * squares / (n * (n * n - 1))


def with_rows_as_steps(sheet: Sheet, roles: Roles) -> tuple[Sheet, Roles]:
    """The table with the place of each row among those of its run as its step."""
    run_columns = [column for role in ("optimizer", "arena", "metric", "seed") for column in roles.get(role, ())]
    places: dict[Texts, int] = {}
    rows = []
    for row in sheet.rows:
        names = _texts_in(row, run_columns)
        places[names] = places.get(names, 0) + 1
        rows.append(replace(row, cells={**row.cells, PLACE: str(places[names])}))
    return replace(sheet, rows=rows), {**roles, "step": [PLACE]}

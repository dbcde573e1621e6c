"""Which column of anyone's table has which role: by the names that programs give it, or as the user says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from fairbench.analysis.tables.cell_numbers import is_lost, is_number
from fairbench.analysis.tables.column_names import ROLES, RUNS, VALUES, direction_of, plain_name
from fairbench.analysis.tables.readers.sheet import Sheet
from fairbench.common.errors import UsageError, unknown

Roles = dict[str, list[str]]
"""The columns of each role."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table, of which the user may have said what they are.

    Attributes:
        given: the column of each role that the user names, or several joined by "+"; of `n` also a number.
        metric: the metric to judge, empty for the only one.
    """

    sheet: Sheet
    given: Mapping[str, str]
    metric: str

    @cached_property
    def roles(self) -> Roles:
        """The columns of the roles that the user gives, or that names of columns say.

        Raises:
            UsageError: a column or a role is unknown, or several columns may have one role.
        """
        roles = _given_roles(self.sheet, self.given)
        has_column_of_metric = self.metric in self.sheet.columns
        if has_column_of_metric:
            roles["value"] = [self.metric]
        for role in ROLES:
            if role in roles or (role == "metric" and has_column_of_metric):
                continue
            column = _recognized(self.sheet, role, roles)
            if column is not None:
                roles[role] = [column]
        return roles

    @cached_property
    def run_names(self) -> str | None:
        """The column with the names of runs, None without one."""
        used = _columns_with_roles(self.roles)
        for name in RUNS:
            for column in self.sheet.columns:
                if plain_name(column) == name and column not in used:
                    return column
        return None

    @cached_property
    def without_role(self) -> list[str]:
        """The columns that have no role, and not the names of runs."""
        used = _columns_with_roles(self.roles)
        return [column for column in self.sheet.columns if column not in used and column != self.run_names]

    @cached_property
    def numeric(self) -> list[str]:
        """The columns of numbers that have no role."""
        return [column for column in self.without_role if has_numbers(self.sheet, column)]


def without_ranges(sheet: Sheet) -> Sheet:
    """The table without the columns in which W&B has the ranges of others."""
    ranges = {}
    for column in sheet.columns:
        base = column[:-5]
        if column.endswith(("__MIN", "__MAX")) and base in sheet.columns:
            ranges[column] = base
    if not ranges:
        return sheet
    note = f"{len(ranges)} columns __MIN and __MAX skipped"
    if any(sheet.column(column) != sheet.column(base) for column, base in ranges.items()):
        note += ", which say that each value is a mean of runs"
    kept = [column for column in sheet.columns if column not in ranges]
    return replace(sheet, columns=kept).with_note(note)


def _columns_with_roles(roles: Roles) -> set[str]:
    """All columns that have a role."""
    return {column for columns in roles.values() for column in columns}


def _given_roles(sheet: Sheet, columns: Mapping[str, str]) -> Roles:
    roles: Roles = {}
    for role, text in columns.items():
        if role not in ROLES:
            raise unknown("role of a column", role, ROLES)
        names = [text] if text in sheet.columns else text.split("+")
        for name in names:
            is_count = role == "n" and name.isdigit()
            if name not in sheet.columns and not is_count:
                raise unknown(f"column of {sheet.name}", name, sheet.columns)
        roles[role] = names
    return roles


def _recognized(sheet: Sheet, role: str, roles: Roles) -> str | None:
    """The free column that has a role by its name."""
    used = _columns_with_roles(roles)
    free = [column for column in sheet.columns if column not in used]
    for name in ROLES[role]:
        found = [column for column in free if _is_called(column, name)]
        if role == "seed" and not name.endswith("seed"):
            found = [column for column in found if _has_whole_numbers(sheet, column)]
        if _differ(sheet, found):
            ways = " or ".join(f'--columns {role}="{column}"' for column in found)
            raise UsageError(f"{sheet.name} has {len(found)} columns that may be the {role}; give {ways}")
        if found:
            return found[0]
    return None


def _is_called(column: str, name: str) -> bool:
    last_part = column.split("/")[-1]
    return name in (plain_name(column), plain_name(last_part))


def _has_whole_numbers(sheet: Sheet, column: str) -> bool:
    return all(map(str.isdigit, sheet.column(column)))


def _differ(sheet: Sheet, columns: Sequence[str]) -> bool:
    """Whether columns have different texts in any row."""
    for row in sheet.rows:
        texts = {row.cells[column] for column in columns}
        if len(texts) > 1:
            return True
    return False


def has_numbers(sheet: Sheet, column: str) -> bool:
    """Whether a column has numbers; one with the name of a value may have wrong ones, which are named later."""
    given = [text for text in sheet.column(column) if not is_lost(text)]
    numbers = [is_number(text) for text in given]
    if direction_of(column):
        return any(numbers) or not numbers
    if plain_name(column) in VALUES:
        return True
    return bool(numbers) and all(numbers)


def which_column(sheet: Sheet, role: str, other: str = "") -> UsageError:
    """The error for a role that no column has."""
    known = ", ".join(sheet.columns)
    return UsageError(f"{sheet.name}: which column is the {role}? Give --columns {role}=NAME; {other}it has {known}")

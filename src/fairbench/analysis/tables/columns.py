"""The roles of the columns of a user's table: by the names that programs give them, or as the user says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fairbench.analysis.tables.cell_numbers import are_states, is_lost, is_number
from fairbench.analysis.tables.column_names import (
    ROLES,
    RUNS,
    VALUES,
    has_no_name,
    has_remarks,
    is_incidental,
    plain_name,
)
from fairbench.analysis.tables.labels import are_sizes, is_summary, role_of
from fairbench.analysis.tables.metric_names import is_metric
from fairbench.analysis.tables.question import Unanswered
from fairbench.analysis.tables.readers.nested import LEVEL, STEP_IN_LIST
from fairbench.analysis.tables.readers.sheet import Sheet
from fairbench.common.errors import UsageError, unknown

COLUMNS = "columns"
"""What the user gives for the role that the names of the columns of values have."""
ROWS = "rows"
"""What the user gives for the role that the order of the rows has."""
WORDS = {(role, COLUMNS) for role in ("optimizer", "arena", "seed")} | {("seed", ROWS), ("step", ROWS)}
"""The roles that may have a word in place of a column."""
JOINED = ("arena", "optimizer", "seed", "metric", "ignore")
"""The roles that several columns may have together."""
Roles = dict[str, list[str]]
"""The columns of each role."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table with their roles, some of which the user may give.

    Attributes:
        given: the column that the user names for a role, or several columns joined by "+". For `n` it may be a number.
        metric: the metric to judge; empty for the only one.
    """

    sheet: Sheet
    given: Mapping[str, str]
    metric: str

    @cached_property
    def roles(self) -> Roles:
        """The columns of each role: those that the user gives, or a column that the name tells.

        Raises:
            UsageError: a column or a role is unknown, or several columns may have one role.
        """
        roles = _given_roles(self.sheet, self.given)
        metric_is_column = self.metric in self.sheet.columns
        if metric_is_column:
            roles["value"] = [self.metric]
        for role in ROLES:
            if role in roles or role in self.given or (role == "metric" and metric_is_column):
                continue  # the user has already said it
            column = _recognized(self.sheet, role, roles)
            if column is not None:
                roles[role] = [column]
        for role, column in self._told_by_texts(roles).items():
            roles[role] = [column]
        return roles

    def _told_by_texts(self, roles: Roles) -> dict[str, str]:
        """The columns whose texts tell their role, for the roles that no column has yet.

        The texts of a column without a name may tell any role; those of another column only optimizers and arenas, and
        remarks that runs are lost.

        Raises:
            UsageError: the texts of several columns tell the same role.
        """
        used = _columns_with_roles(roles)
        columns_of_roles: Roles = {}
        for column in self.sheet.columns:
            if column in used or plain_name(column) in RUNS:
                continue
            role = self._role_of_texts(column)
            if role and role not in roles and role not in self.given:
                columns_of_roles.setdefault(role, []).append(column)
        for role, columns in columns_of_roles.items():
            if len(columns) > 1:
                ways = " or ".join(f'--columns {role}="{column}"' for column in columns)
                message = f"{self.sheet.name}: {len(columns)} columns may be the {role}; give {ways}"
                raise Unanswered(message, columns={role: columns[0]})
        return {role: columns[0] for role, columns in columns_of_roles.items()}

    def _role_of_texts(self, column: str) -> str:
        """The role that the texts of a column tell; empty without one.

        The place in a list of JSON is the step, unless the user says what the order of the rows is.
        """
        if column == STEP_IN_LIST:
            if self.row_role:
                return ""
            return "step"
        texts = self.sheet.column(column)
        if has_remarks(column) and are_states(texts):
            return "state"
        if _is_called_incidental(column):
            return ""
        role = role_of(texts)
        if role == "arena" and len(set(texts)) == 1 and not has_no_name(column):
            return ""  # a remark on all rows
        if role in ("optimizer", "arena"):
            return role
        if not has_no_name(column):
            return ""
        # numbers in the first column of a file may count its rows, but as keys of JSON they are seeds
        if role == "seed" and (not column.startswith(LEVEL) or are_sizes(self.sheet.column(column))):
            return ""
        return role

    @cached_property
    def wide_role(self) -> str:
        """The role that the names of the columns of values have, if the user says it; otherwise empty."""
        return self._role_given_as(COLUMNS)

    @cached_property
    def row_role(self) -> str:
        """The role that the rows have by their order, "seed" or "step", if the user says it; otherwise empty."""
        return self._role_given_as(ROWS)

    def _role_given_as(self, word: str) -> str:
        """The role that the user gives a word in place of a column; otherwise empty."""
        for role, column in self.given.items():
            if column == word and column not in self.sheet.columns:
                return role
        return ""

    @cached_property
    def run_names(self) -> str | None:
        """The column with the names of runs; None without one."""
        used = _columns_with_roles(self.roles)
        for name in RUNS:
            for column in self.sheet.columns:
                if plain_name(column) == name and column not in used:
                    return column
        return None

    @cached_property
    def without_role(self) -> list[str]:
        """The columns that have neither a role nor the names of runs."""
        used = {*_columns_with_roles(self.roles), STEP_IN_LIST}
        return [column for column in self.sheet.columns if column not in used and column != self.run_names]

    @cached_property
    def numeric(self) -> list[str]:
        """The columns of numbers that have no role."""
        return [column for column in self.without_role if has_numbers(self.sheet, column)]


def _columns_with_roles(roles: Roles) -> set[str]:
    """All columns that have a role."""
    return {column for columns in roles.values() for column in columns}


def _given_roles(sheet: Sheet, given: Mapping[str, str]) -> Roles:
    """The columns of the roles that the user gives, without the roles that have a word in place of a column.

    Raises:
        UsageError: a role or a column is unknown.
    """
    roles: Roles = {}
    for role, text in given.items():
        if role not in ROLES:
            raise unknown("role of a column", role, ROLES)
        names = [text]
        if text not in sheet.columns:
            names = text.split("+")
        if len(names) > 1 and role not in JOINED:
            raise UsageError(f"--columns {role}={text}: only {', '.join(JOINED)} may join columns; name one of them")
        for name in names:
            is_count = role == "n" and name.isdigit()
            is_word = (role, name) in WORDS
            if name not in sheet.columns and not is_count and not is_word:
                raise unknown(f"column of {sheet.name}", name, sheet.columns)
        if text in (COLUMNS, ROWS) and text not in sheet.columns:
            continue  # see wide_role and row_role
        roles[role] = names
    return roles


def _recognized(sheet: Sheet, role: str, roles: Roles) -> str | None:
    """The column that has a role by its name, among the columns without another role; None without one.

    Of several columns with such a name, which must be equal in all rows, it is the first.

    Raises:
        UsageError: several columns with such a name differ.
    """
    used = _columns_with_roles(roles)
    free = [column for column in sheet.columns if column not in used]
    for name in ROLES[role]:
        candidates = [column for column in free if _is_called(column, name)]
        if role == "seed" and not name.endswith("seed"):
            # a column as "run" may also have the names of runs
            candidates = [column for column in candidates if _has_whole_numbers(sheet, column)]
        if _differ(sheet, candidates):
            ways = " or ".join(f'--columns {role}="{column}"' for column in candidates)
            message = f"{sheet.name}: {len(candidates)} columns may be the {role}; give {ways}"
            raise Unanswered(message, columns={role: candidates[0]})
        if candidates:
            return candidates[0]
    return None


def _is_called(column: str, name: str) -> bool:
    """Whether a column has a name, as a whole or after its last slash."""
    last_part = column.split("/")[-1]
    return name in (plain_name(column), plain_name(last_part))


def _is_called_incidental(column: str) -> bool:
    """Whether the name of a column says that it has a cost, or what identifies a run; a missing name says nothing."""
    return is_incidental(column) and not has_no_name(column)


def _has_whole_numbers(sheet: Sheet, column: str) -> bool:
    """Whether all cells of a column, but for those of summaries, are whole numbers."""
    texts = [text for text in sheet.column(column) if not is_summary(text)]
    return all(map(str.isdigit, texts))


def _differ(sheet: Sheet, columns: Sequence[str]) -> bool:
    """Whether columns have different texts in any row."""
    for row in sheet.rows:
        texts = {row.cells[column] for column in columns}
        if len(texts) > 1:
            return True
    return False


def has_numbers(sheet: Sheet, column: str) -> bool:
    """Whether a column is taken as numbers: half or more of its cells are, apart from words for a lost run.

    A column named as a metric needs only one number, or no other text; one with a name in VALUES needs none. The error
    for the other cells names them later.
    """
    filled = [text for text in sheet.column(column) if not is_lost(text)]
    numbers = sum(is_number(text) for text in filled)
    if is_metric(column):
        return numbers > 0 or not filled
    if plain_name(column) in VALUES:
        return True
    return 0 < len(filled) <= 2 * numbers


def which_column(sheet: Sheet, role: str, ways: str = "") -> UsageError:
    """The error for a role that no column has.

    Args:
        ways: what the user can do, in words; empty for the option --columns alone.
    """
    known = ", ".join(sheet.columns)
    ways = ways or f"Give --columns {role}=NAME"
    return UsageError(f"{sheet.name}: which column is the {role}? {ways}; it has {known}")


def which_optimizer(columns: Columns) -> UsageError:
    """The error for a table without a column of optimizers. It names the columns that may be it."""
    candidates = []
    for column in columns.without_role:
        has_words = not has_numbers(columns.sheet, column)
        is_constant = len(set(columns.sheet.column(column))) <= 1
        if has_words and not is_constant and not _is_called_incidental(column):
            candidates.append(column)
    if not candidates:
        ways = "Give --columns optimizer=NAME, the files of several runs, such as runs/*/*.csv, or --reference-value X"
        return which_column(columns.sheet, "optimizer", ways)
    listed = [f'optimizer="{column}"' for column in candidates]
    ways = f"Give --columns {' or '.join(listed)}, or a table with a column for each optimizer"
    return Unanswered(str(which_column(columns.sheet, "optimizer", ways)), columns={"optimizer": candidates[0]})

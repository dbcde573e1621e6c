"""Tables of values in memory: data frames, lists of rows, and mappings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from itertools import zip_longest
from typing import Any

from fairbench.analysis.tables.readers import nested
from fairbench.analysis.tables.readers.content import Content, TextRow, TextRows
from fairbench.analysis.tables.readers.sheet import check_names
from fairbench.common.errors import UsageError
from fairbench.common.formatting import some


def read(content: Content) -> TextRows | None:
    """The rows of values in memory; None for the text of a file."""
    if content.text is not None:
        return None
    return rows_of(content.name, content.values)


def rows_of(name: str, values: Any) -> TextRows:
    """The rows of a data frame, of a mapping, or of a list of mappings, of dataclasses or of rows.

    The name of the table is for messages.
    """
    if hasattr(values, "columns"):
        check_names(name, [_text(column) for column in values.columns])
    if hasattr(values, "to_dicts"):  # a data frame of polars
        values = values.to_dicts()
    if hasattr(values, "to_pylist"):  # a table of pyarrow
        values = values.to_pylist()
    if hasattr(values, "reset_index"):
        values = _records_of_pandas(values)
    notes: tuple[str, ...] = ()
    if isinstance(values, Mapping):
        values, left_out = _rows_of_mapping(values)
        if left_out:
            notes = (f"keys that hold no rows left out: {some(left_out)}",)
    listed = [*values] if isinstance(values, Iterable) else [values]
    rows = []
    for index, row in enumerate(_lists(name, listed)):
        cells = [_text(value) for value in row]
        rows.append(TextRow(f"{name}, row {index}", cells))
    return TextRows(name, rows, notes)


def _records_of_pandas(frame: Any) -> list[dict[str, Any]]:
    """The rows of a data frame of pandas, in which NaN is a missing value.

    An index without a name that has numbers is left out, since it counts the rows. One of texts is a column without a
    name.
    """
    has_named_index = any(frame.index.names)
    has_texts = any(isinstance(label, str) for label in frame.index)
    if has_texts and not has_named_index:
        frame = frame.rename_axis("column 1")
    flat = frame.reset_index(drop=not has_named_index and not has_texts)
    records: list[dict[str, Any]] = flat.astype(object).where(flat.notna(), None).to_dict("records")
    return records


def _lists(name: str, rows: Sequence[Any]) -> Sequence[Iterable[Any]]:
    """The rows as lists of values. The first list has the names of the columns."""
    plain = [_plain(row) for row in rows]
    if plain and all(isinstance(row, Mapping) for row in plain):
        return _lists_of_mappings(plain)
    if any(isinstance(row, str) or not isinstance(row, Iterable) for row in plain):
        raise UsageError(f"{name} must be a list of rows, each with its values by column, or a list for each column")
    return plain


def _plain(row: Any) -> Any:
    """A row; an instance of a dataclass becomes a mapping."""
    if is_dataclass(row) and not isinstance(row, type):
        return asdict(row)
    return row


def _lists_of_mappings(rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """The rows as lists of values. The first list has the columns of all rows."""
    flat = [values for row in rows for values in nested.rows_of_record(row)]
    columns: dict[str, None] = {}
    for row in flat:
        columns.update(dict.fromkeys(row))
    lists: list[list[Any]] = [list(columns)]
    for row in flat:
        lists.append([row.get(column) for column in columns])
    return lists


def _rows_of_mapping(values: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """The rows of a mapping, and the keys of its values that are left out.

    The mapping may hold tables by their names, or any form that pandas writes: columns and data apart, rows by
    numbers, columns of values by numbers of rows, or columns as lists. Otherwise the mapping is the only row.
    """
    tables = _tables(values)
    if tables:
        left_out = tuple(key for key in values if key not in tables)
        return _joined(tables), left_out
    if isinstance(values.get("columns"), list) and isinstance(values.get("data"), list):
        return _split_by_pandas(values)
    inner_mappings = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    if inner_mappings and len(inner_mappings) == len(values):
        if all(key.isdigit() for key in values):
            return [*inner_mappings.values()], ()  # rows by their numbers
        if all(_is_column_by_row_numbers(value) for value in inner_mappings.values()):
            return _rows_of_numbered(values), ()
    if inner_mappings and not nested.is_record(values):
        left_out = tuple(key for key in values if key not in inner_mappings)
        return nested.rows_of_levels(inner_mappings), left_out
    if all(_is_list(value) for value in values.values()):
        # a list of values for each column
        return [[*values], *zip_longest(*values.values())], ()
    return [*nested.rows_of_record(values)], ()


def _is_list(value: Any) -> bool:
    """Whether a value is a list, rather than a text or a mapping."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def _tables(values: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The values that are lists of mappings, each of which is a table, by their keys."""
    tables = {}
    for key, value in values.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            tables[key] = value
    return tables


def _joined(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """The rows of all tables. If there are several, each row also has the name of its table."""
    rows: list[Mapping[str, Any]] = []
    for name, table in tables.items():
        if len(tables) > 1:
            rows += [{"table": name, **row} for row in table]
        else:
            rows += table
    return rows


def _split_by_pandas(values: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """The rows of a mapping in which pandas wrote columns and data apart, and the other keys, which are left out.

    An index of only row numbers says nothing, so it is not among these keys.
    """
    row_numbers = list(range(len(values["data"])))
    left_out = []
    for key, value in values.items():
        if key not in ("columns", "data") and value != row_numbers:
            left_out.append(key)
    return [values["columns"], *values["data"]], tuple(left_out)


def _is_column_by_row_numbers(column: Mapping[str, Any]) -> bool:
    """Whether a mapping holds the values of a column by the numbers of the rows, which count from 0."""
    numbers = [str(number) for number in range(len(column))]
    return [*column] == numbers and not any(isinstance(value, Mapping) or _is_list(value) for value in column.values())


def _rows_of_numbered(columns: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of some columns, each of which has its values by the numbers of the rows."""
    numbers: dict[str, None] = {}
    for column in columns.values():
        numbers.update(dict.fromkeys(column))
    rows = []
    for number in numbers:
        rows.append({name: column.get(number) for name, column in columns.items()})
    return rows


def _text(value: Any) -> str:
    """A value as text. A tensor or a number of numpy is written as a plain number."""
    if isinstance(value, tuple):  # the name of a column of several levels in pandas
        return "_".join(filter(None, map(_text, value)))
    if value is None:
        return ""
    if hasattr(value, "item"):
        value = value.item()
    return str(value).strip()

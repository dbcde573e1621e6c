"""Mappings in mappings as rows: the keys of each level are a column, and the innermost mapping is a row."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from numbers import Real
from typing import Any

from fairbench.analysis.tables.column_names import ROLES, VALUES, is_setting, plain_name
from fairbench.analysis.tables.metric_names import is_metric, statistic_of

LEVEL = "level "
"""How the name of a column begins that has the keys of a level of nested mappings."""
STEP_IN_LIST = "step in list"
"""The name of the column with the places of the values of a curve in their list."""
VALUE = "value"
"""The name of the column of values that have no other name than the keys of their levels."""
OF_SETTINGS = ("config", "cfg", "params", "hparams", "hyperparameters", "args", "settings")
"""How programs call the mapping of the settings of a run."""
NAMES_OF_ROLES = {name for names in ROLES.values() for name in names}


def is_record(values: Mapping[str, Any]) -> bool:
    """Whether a mapping has the values of a row by the names of columns, rather than by optimizers or arenas.

    One value that is no mapping must have the name of a metric, a statistic, a role or a setting, or a mapping must
    have the name of settings.
    """
    if any(plain_name(str(key)) in OF_SETTINGS and isinstance(value, Mapping) for key, value in values.items()):
        return True
    return any(_is_field(str(key)) for key, value in values.items() if not isinstance(value, Mapping))


def _is_field(key: str) -> bool:
    """Whether a key is the name of a column."""
    name = plain_name(key)
    if name in NAMES_OF_ROLES or name in VALUES:
        return True
    return is_metric(key) or statistic_of(key) is not None or is_setting(key)


def rows_of_levels(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of nested mappings, each with the keys of its levels in columns level 1, level 2 and so on."""
    return [*_rows(values, ())]


def _rows(value: Any, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The rows of a value below some keys."""
    levels: dict[str, Any] = {f"{LEVEL}{number}": key for number, key in enumerate(keys, 1)}
    if isinstance(value, Mapping):
        if is_record(value):
            for row in rows_of_record(value):
                yield {**levels, **row}
        else:
            for key, inner in value.items():
                yield from _rows(inner, (*keys, str(key)))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            if isinstance(item, Mapping):
                for row in rows_of_record(item):
                    yield {**levels, **row}
            else:
                yield {**levels, VALUE: item}
    else:
        yield {**levels, VALUE: value}


def rows_of_record(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The row of a mapping; a row for each step if the values of a metric are a list, as those of a curve.

    A column of numbers gives the steps. All other lists of the same length are read along.
    """
    flat = _flat(record)
    lengths = [len(value) for key, value in flat.items() if is_metric(key) and _are_numbers(value)]
    if not lengths:
        yield flat
        return
    curves = {key: value for key, value in flat.items() if _are_numbers(value) and len(value) in lengths}
    constants = {key: value for key, value in flat.items() if key not in curves}
    for step, values in enumerate(zip_longest(*curves.values())):  # a shorter curve ends with None
        value_of_curve = dict(zip(curves, values, strict=True))
        yield {**constants, STEP_IN_LIST: step, **value_of_curve}


def _are_numbers(value: Any) -> bool:
    """Whether a value is a list of numbers, some of which may be missing."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(item is None or (isinstance(item, Real) and not isinstance(item, bool)) for item in value)


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings. The name of each value is the path of its keys, joined by dots."""
    values_by_path: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            values_by_path |= _flat(value, prefix=f"{prefix}{key}.")
        else:
            values_by_path[f"{prefix}{key}"] = value
    return values_by_path

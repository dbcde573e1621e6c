"""A column of the Parquet file of all records, and the columns of the keys that trials have in a part."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fairbench.analysis.results import Run
from fairbench.report.fields import Field

Value = Callable[[Run], Any]
"""Returns the value of a column in a trial."""
Part = Callable[[Run], Mapping[str, Any] | None]
"""Returns a part of a trial whose keys are columns."""


@dataclass(frozen=True)
class RecordColumn(Field):
    """A column of the file.

    Attributes:
        value: returns the value in a trial.
    """

    value: Value = field(kw_only=True)


def key_columns(runs: Sequence[Run], part: Part, prefix: str, type_: str, description: str) -> Iterator[RecordColumn]:
    """A column for each key that any trial has in a part. The name of the column is the prefix and the key."""
    for key in keys_in(runs, part):
        name = prefix + key.replace("-", "_")
        yield RecordColumn(name, type_, description, value=partial(_value_of_key, part, key))


def keys_in(runs: Sequence[Run], part: Part) -> list[str]:
    """The keys that any trial has in a part, sorted."""
    keys: set[str] = set()
    for run in runs:
        keys.update(part(run) or ())
    return sorted(keys)


def _value_of_key(part: Part, key: str, run: Run) -> Any:
    """The value of a key in a part of a trial; None if the trial has no such part or key."""
    return (part(run) or {}).get(key)

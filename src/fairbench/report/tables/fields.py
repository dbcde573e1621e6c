"""The columns of data files: their names, types and meanings, from the dataclasses of the rows."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TYPES = {str: "string", int: "integer", float: "number", Decimal: "number", bool: "boolean"}
"""The names of types in a Frictionless table schema; all others are texts."""
UNITS = {"_ms": "ms", "_s": "s", "_seconds": "s", "_mb": "MB", "_bytes": "B"}
"""The unit of a column by the end of its name."""
COMMON = {
    "arena": "name of the arena",
    "optimizer": "name of the optimizer",
    "metric": "name of the metric",
    "n": "number of seeds",
}
"""The meaning of columns where their dataclass does not say more."""


@dataclass(frozen=True)
class Field:
    """A column of a data file.

    Attributes:
        type: "string", "integer", "number", "boolean", "array" or "any"; only a Parquet file has arrays.
        item: of an array, the type of its values; otherwise empty.
    """

    name: str
    type: str
    description: str
    item: str = ""

    def to_json(self) -> dict[str, Any]:
        """The column in a Frictionless table schema."""
        units = [unit for end, unit in UNITS.items() if self.name.endswith(end)]
        unit = {"unit": units[0]} if units else {}
        kind, begin = ("any", "list: ") if self.item else (self.type, "")  # its library refuses the lists of Parquet
        return {"name": self.name, "type": kind, "description": f"{begin}{self.description}", **unit}


def fields_of(kind: type[DataclassInstance]) -> list[Field]:
    """The fields of a dataclass with the meanings that its docstring gives, or common ones.

    Raises:
        KeyError: a field has no meaning.
    """
    meanings, types = {**COMMON, **meanings_of(kind)}, get_type_hints(kind)
    return [Field(x.name, _type(types[x.name]), meanings[x.name]) for x in fields(kind)]


def _type(hint: Any) -> str:
    """The type of the values, without None."""
    return next(TYPES.get(x, "string") for x in (get_args(hint) or (hint,)) if x is not NoneType)


def purpose(kind: type) -> str:
    """The first sentence of a docstring."""
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())


def meanings_of(kind: type) -> dict[str, str]:
    """The meaning of each field in the section "Attributes" of a docstring; None is an empty cell in a file."""
    section = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n     +.*)*)", section, flags=re.MULTILINE)
    entries = [(names, re.sub(r"\bNone\b", "empty", " ".join(text.split())).rstrip(".")) for names, text in entries]
    return {name: text for names, text in entries for name in names.split(", ")}

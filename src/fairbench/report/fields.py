"""The columns of data files: name, type, unit and meaning. The docstring of a dataclass says the meanings."""

import inspect
import re
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from types import NoneType
from typing import Any, get_args, get_type_hints

from fairbench.common.wording import Wording

SEARCHED = "searched"
"""The field with the searched hyperparameters by their names. Each of them is a column."""
TYPES = {str: "string", int: "integer", float: "number", Decimal: "number", bool: "boolean"}
"""The names of types in a Frictionless table schema; all others are texts."""
UNITS = {"_ms": "ms", "_s": "s", "_seconds": "s", "_mb": "MB", "_bytes": "B"}
"""The unit of a column by the end of its name."""
COMMON = {
    "arena": "name of the arena",
    "optimizer": "name of the optimizer",
    "metric": "name of the metric",
    "n": "number of seeds",
    "note": "why a value is missing, or a restriction; may be empty",
    "ci_low": "end of the 95% confidence interval, not corrected for the number of rows",
    "ci_high": "end of the 95% confidence interval, not corrected for the number of rows",
    "groups": "a letter for each group to which it belongs; optimizers that share one are not separated",
    "critical_difference": "the smallest difference of mean ranks that separates two; empty without such a test",
    "baseline": "the optimizer that it is compared with",
    "direction": '"min" or "max", which is better',
    "place": "where it is printed",
    "stage": '"sweep" or "final"',
    "status": '"finished", "diverged", "failed" or "missing"',
    "selected": "whether its setting is the one that is reported",
}
"""The meanings of columns whose dataclass does not describe them."""
ATTRIBUTES = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n     +.*)*)", re.MULTILINE)
"""Names of attributes and their meaning in a docstring. Further lines of the meaning are indented deeper."""


@dataclass(frozen=True)
class Field:
    """A column of a data file.

    Attributes:
        type: "string", "integer", "number", "boolean", "array" or "any"; only a Parquet file has arrays.
        item: the type of the values in an array; empty for other types.
    """

    name: str
    type: str
    description: str
    item: str = ""

    def to_json(self) -> dict[str, Any]:
        """The column in a Frictionless table schema."""
        if self.item:  # its library refuses the lists of Parquet
            schema = {"name": self.name, "type": "any", "description": f"list: {self.description}"}
        else:
            schema = {"name": self.name, "type": self.type, "description": self.description}
        unit = self._unit()
        if unit:
            schema["unit"] = unit
        return schema

    def worded(self, wording: Wording) -> "Field":
        """The column in the words of a study."""
        return replace(self, name=wording.column(self.name), description=wording.text(self.description))

    def _unit(self) -> str:
        """The unit that the end of the column's name says; empty without a unit."""
        for end, unit in UNITS.items():
            if self.name.endswith(end):
                return unit
        return ""


def fields_of(kind: type) -> list[Field]:
    """The fields of a dataclass, with their meanings.

    A meaning comes from the docstring of the dataclass, or else from that of a base, or else from `COMMON`.

    Raises:
        KeyError: a field has no meaning.
    """
    types = get_type_hints(kind)
    meanings = dict(COMMON)
    bases_first = reversed(kind.__mro__)  # so that the class itself has the last word
    for base in bases_first:
        meanings |= meanings_of(base)
    return [Field(name, _type(types[name]), meanings[name]) for name in names_of(kind)]


def names_of(kind: type) -> tuple[str, ...]:
    """The names of the columns of a dataclass, without the searched hyperparameters, which differ between studies."""
    return tuple(field.name for field in fields(kind) if field.name != SEARCHED)


def _type(hint: Any) -> str:
    """The name of the type of a field. None among the alternatives is ignored."""
    alternatives = get_args(hint) or (hint,)  # float | None has two
    first = next(alternative for alternative in alternatives if alternative is not NoneType)
    return TYPES.get(first, "string")


def purpose(kind: type) -> str:
    """The first paragraph of the docstring of a class, in one line."""
    text = inspect.getdoc(kind) or ""
    first, _, _ = text.partition("\n\n")
    return _in_one_line(first)


def meanings_of(kind: type) -> dict[str, str]:
    """The meaning of each field, from the section "Attributes" of a docstring.

    "None" is replaced by "empty", since None is an empty cell in a file.
    """
    text = inspect.getdoc(kind) or ""
    _, _, section = text.partition("Attributes:\n")
    meanings = {}
    for names, lines in ATTRIBUTES.findall(section):
        meaning = re.sub(r"\bNone\b", "empty", _in_one_line(lines)).rstrip(".")
        for name in names.split(", "):
            meanings[name] = meaning
    return meanings


def _in_one_line(text: str) -> str:
    """A text without line breaks."""
    return " ".join(text.split())

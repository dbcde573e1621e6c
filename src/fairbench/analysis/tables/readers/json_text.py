"""Tables in JSON: one value, or a value in each line."""

import json
from typing import Any

from fairbench.analysis.tables.readers import values
from fairbench.analysis.tables.readers.content import Content, TextRows
from fairbench.analysis.tables.readers.sheet import check_names
from fairbench.common.errors import UsageError


def read(content: Content) -> TextRows | None:
    """The rows of a text in JSON. None if the text does not begin with a list or an object."""
    if content.text is None or not content.text.lstrip().startswith(("[", "{")):
        return None
    return values.rows_of(content.name, _parsed(content.name, content.text))


def _parsed(name: str, text: str) -> Any:
    """The JSON value of a text, or the list of its values if several follow each other."""

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """A dictionary of an object; two equal names are an error."""
        check_names(name, [key for key, _ in pairs])
        return dict(pairs)

    decoder = json.JSONDecoder(object_pairs_hook=mapping)
    parsed: list[Any] = []
    position = _start_of_value(text, 0)
    try:
        while position < len(text):
            value, end = decoder.raw_decode(text, position)
            parsed.append(value)
            position = _start_of_value(text, end)
    except json.JSONDecodeError as error:
        raise UsageError(f"{name}, line {error.lineno}, column {error.colno}: is not JSON: {error.msg}") from None
    except ValueError as error:  # a number with too many digits
        line = text.count("\n", 0, position) + 1
        raise UsageError(f"{name}, line {line}: is not JSON: {error}") from None
    return parsed if len(parsed) > 1 else parsed[0]


def _start_of_value(text: str, position: int) -> int:
    """The position of the first character that is not white space, at or after a position."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position

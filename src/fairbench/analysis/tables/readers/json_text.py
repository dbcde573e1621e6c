"""Tables in JSON: one value, or a value in each line."""

import json
from typing import Any

from fairbench.analysis.tables.readers import values
from fairbench.analysis.tables.readers.content import Content, TextRows
from fairbench.analysis.tables.readers.sheet import check_names
from fairbench.common.errors import UsageError


def read(content: Content) -> TextRows | None:
    """The rows of a text that begins as JSON does, otherwise None."""
    if content.text is None or not content.text.lstrip().startswith(("[", "{")):
        return None
    return values.rows_of(content.name, _parsed(content.name, content.text))


def _parsed(name: str, text: str) -> Any:
    """The value of a text, or the list of the values of its lines."""

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        check_names(name, [key for key, _ in pairs])
        return dict(pairs)

    decoder = json.JSONDecoder(object_pairs_hook=mapping)
    found: list[Any] = []
    end = 0
    rest = text.lstrip()
    try:
        while rest:
            value, length = decoder.raw_decode(rest)
            found.append(value)
            end = len(text) - len(rest) + length
            rest = text[end:].lstrip()
    except ValueError as error:
        line = text.count("\n", 0, end) + 1
        raise UsageError(f"{name}, line {line}: no JSON: {error}") from None
    return found if len(found) > 1 else found[0]

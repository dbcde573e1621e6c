"""Columns of remarks on single runs, which tell no arms apart: most cells are empty, or each has another text."""

from collections.abc import Sequence

from fairbench.analysis.tables.cell_numbers import given_texts
from fairbench.analysis.tables.column_names import is_varied
from fairbench.analysis.tables.columns import has_numbers
from fairbench.analysis.tables.readers.nested import LEVEL
from fairbench.analysis.tables.readers.sheet import Sheet
from fairbench.common.formatting import plural, some


def is_mostly_empty(sheet: Sheet, column: str) -> bool:
    """Whether more than half of the cells of a column of words are empty. A setting or a level of JSON never is."""
    if is_varied(column) or column.startswith(LEVEL) or has_numbers(sheet, column):
        return False
    texts = sheet.column(column)
    return 2 * len(given_texts(texts)) < len(texts)


def is_unique(sheet: Sheet, column: str) -> bool:
    """Whether each cell of a column of words has another text. A setting or a level of JSON never does."""
    if is_varied(column) or column.startswith(LEVEL) or has_numbers(sheet, column):
        return False
    texts = given_texts(sheet.column(column))
    return len(set(texts)) == len(texts)


def notes_on_remarks(sheet: Sheet, columns: Sequence[str]) -> list[str]:
    """Notes on the columns of remarks among those without a role, which count for nothing."""
    notes = []
    for column in columns:
        texts = given_texts(sheet.column(column))
        if texts and is_mostly_empty(sheet, column):
            quoted = some([repr(text) for text in dict.fromkeys(texts)])
            number = f"{len(texts)} of {plural(len(sheet.rows), 'row')}"
            notes.append(
                f"{column} has a remark in {number} ({quoted}) and is left out; "
                f'give --columns state="{column}" if it says that runs are lost'
            )
    return notes

"""The rows of a user's table as texts. There is one reader for each form of a table."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fairbench.analysis.tables.readers import delimited, files, json_text, markdown, values
from fairbench.analysis.tables.readers.content import Content, TextRows, opened
from fairbench.analysis.tables.readers.sheet import Sheet, sheet_of

Reader = Callable[[Content], TextRows | None]
"""A function that reads one form of tables. It returns None for a content in another form."""
READERS: Sequence[Reader] = (values.read, json_text.read, markdown.read, delimited.read)
"""The readers in the order in which they are asked; the last one takes any text."""


def read_table(source: Any, name: str = "", metric: str = "") -> Sheet:
    """The rows of a table, as texts; or those of several files.

    Args:
        source: a path; "-" for standard input; an open file; a data frame of pandas, polars or pyarrow; a list of
            mappings, of dataclasses, or of rows of which the first has the names; a mapping of columns, or of such
            lists. A file has CSV with commas, semicolons, tabs or bars, tables in Markdown, JSON, or lines of JSON; it
            may be compressed by gzip. Parquet and Feather are read, too. Also a folder, or a list of paths.
        name: a regular expression with named groups, such as optimizer and seed, for the paths of several files.
        metric: the metric to judge, which tells the table of a page that has others; empty for the only one.

    Raises:
        UsageError: it cannot be read, has no rows, unlike tables, two columns of one name, or a row of another length.
    """
    paths = files.files_of(source)
    if len(paths) > 1:
        sheets = [_one_table(path, metric, named=path.as_posix()) for path in paths]
        return files.joined(paths, sheets, name)
    return _one_table(paths[0] if paths else source, metric)


def _one_table(source: Any, metric: str, named: str = "") -> Sheet:
    """The rows of one source.

    Args:
        named: the name of the source in messages, if it is not that of the file alone.
    """
    content = replace(opened(source), metric=metric)
    if named:
        content = replace(content, name=named)
    for read in READERS:
        rows = read(content)
        if rows is not None:
            return sheet_of(rows)
    raise AssertionError("the last reader takes any text")

"""CSV files as tests read them."""

import csv
import io


def rows_of(text):
    """The rows of a CSV file, each by the names of its columns."""
    return list(csv.DictReader(io.StringIO(text)))


def column(rows, name):
    """The values of one column, from the first row to the last."""
    return [row[name] for row in rows]

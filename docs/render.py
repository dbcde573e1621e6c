"""Write README.md and every page of docs/ that has a template, `docs/templates/performance.md.in` for example.

.venv/bin/python docs/render.py

A template names a value, a claim or a table of `docs/results/FOLDER/values.toml`, which has a query for each:

    In gpt the difference is {{ mini.gain_in_gpt }} nats.
    Of 57 comparisons {{ ablation.none_decided: none is better or worse }}.
    {{ mini.against_adamw }}

A value is the one cell of its query. The words of a claim are written if its query gives 1; otherwise nothing is
written, and the claim is named. A table has a line below it: when, at which commit and on what it was measured.

Queries are SQL of SQLite 3.39 or newer. Their tables are the CSV files of the folder, by name; empty cells are NULL,
TRUE and FALSE are 1 and 0.
"""

import csv
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from functools import cache
from math import sqrt
from pathlib import Path

from fairbench.analysis.statistics.significance import paired_t
from fairbench.common import formatting
from fairbench.common.toml import tomllib

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs/results"
TEMPLATES = ROOT / "docs/templates"
NAMED = re.compile(r"\{\{ (\w+)\.(\w+)(?:: ([^}]+))? \}\}")
NUMERAL = re.compile(r"-?(?:0|[1-9]\d*)((?:\.\d+)?(?:e[-+]\d+)?)")
"""As Python writes numbers; the commits 0012345 and 12e3456 are none."""
WRITERS = ("confidence_level", "exact", "interval", "number", "p_value", "percent")
"""Functions of fairbench that write numbers."""
WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


class Paired:
    """The aggregate `paired(a, b)`: the difference of two arms, paired by seed, with its 95% interval."""

    def __init__(self) -> None:
        self.pairs: list[tuple[float, float]] = []

    def step(self, a: float, b: float) -> None:
        """Add the values of a seed."""
        self.pairs.append((a, b))

    def finalize(self) -> str:
        """The result."""
        first = [a for a, _ in self.pairs]
        second = [b for _, b in self.pairs]
        test = paired_t(first, second)
        return formatting.interval(test.difference, test.ci_low, test.ci_high)


def typed(text: str) -> str | float | None:
    """A cell of a CSV file as a value of SQL."""
    if text in ("TRUE", "FALSE"):
        return text == "TRUE"
    number = NUMERAL.fullmatch(text)
    if number:
        return float(text) if number[1] else int(text)
    return text or None


def in_words(count: int) -> str:
    """A small number as a word."""
    return WORDS[count] if count < len(WORDS) else str(count)


@cache
def database(folder: Path) -> sqlite3.Connection:
    """The CSV files of a folder as tables, with functions that write numbers."""
    connection = sqlite3.connect(":memory:")
    for name in WRITERS:
        connection.create_function(name, -1, getattr(formatting, name))
    connection.create_function("in_words", 1, in_words)
    connection.create_function("sqrt", 1, sqrt)  # not every SQLite has it
    connection.create_aggregate("paired", 2, Paired)
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            names, *rows = csv.reader(file)
        columns = ", ".join(f"[{name}]" for name in names)
        placeholders = ", ".join("?" for _ in names)
        values = [[typed(cell) for cell in row] for row in rows]
        connection.execute(f"create table [{path.stem}] ({columns})")
        connection.executemany(f"insert into [{path.stem}] values ({placeholders})", values)
    return connection


@cache
def declared(folder: Path) -> Mapping[str, Mapping[str, str]]:
    """The queries of a folder by kind, "values", "claims" or "tables", and name."""
    return {"values": {}, "claims": {}, "tables": {}, **tomllib.loads((folder / "values.toml").read_text())}


def shown(folder: Path, name: str, words: str | None) -> str:
    """What the page has in place of a name.

    Raises:
        ValueError: there is no such name, its query fails or has not one value, or the claim is not true.
    """
    where = f"{folder.name}.{name}"
    kind = kind_of(folder, name)
    is_claim = words is not None
    if kind is None or (kind == "claims") != is_claim:
        found = f"it in {kind}" if kind else "no such name"
        raise ValueError(f"{where}: values.toml has {found}; words go with claims")
    query = declared(folder)[kind][name]
    try:
        cursor = database(folder).execute(query)
    except sqlite3.Error as error:
        raise ValueError(f"{where}: {error} in: {query}") from None
    rows = cursor.fetchall()
    if kind == "tables":
        head = [column[0] for column in cursor.description]
        return "\n".join(table_lines(head, rows, measured(folder, query)))
    value = only_value(rows)
    if words is not None:
        if value != 1:
            raise ValueError(f"{where}: {rows} instead of 1, so the claim is false: {query}")
        return words
    if value is None:
        raise ValueError(f"{where}: {rows} instead of one value: {query}")
    return str(value)


def kind_of(folder: Path, name: str) -> str | None:
    """Whether a name is in "values", "claims" or "tables" of a folder; None if it is in none of them."""
    for kind, queries in declared(folder).items():
        if name in queries:
            return kind
    return None


def only_value(rows: list[tuple[object, ...]]) -> object:
    """The value of a query's one cell; None if it has another number of cells."""
    if len(rows) != 1 or len(rows[0]) != 1:
        return None
    return rows[0][0]


def table_lines(head: list[str], rows: list[tuple[object, ...]], source: str) -> Iterator[str]:
    """A table in Markdown, and where it was measured."""
    for row in (head, ["---" for _ in head], *rows):
        cells = [formatting.NONE if value is None else str(value) for value in row]
        yield f"| {' | '.join(cells)} |"
    if source:
        yield ""
        yield f"<sub>{source}</sub>"


def measured(folder: Path, query: str) -> str:
    """When, at which commit and on what a table was measured, by a study's `config.json` or by `measured.csv`."""
    config = folder / "config.json"
    if config.exists():
        plan = json.loads(config.read_text())["plans"][-1]
        environment = plan["study"]["environment"]
        commit = environment["git"][:7] + environment["git"][40:]  # with "+changes", if it has them
        return f"Measured on {plan['declared'][:10]}, commit {commit}, {environment['device']}."
    with (folder / "measured.csv").open() as file:
        row_of = {Path(row["file"]).stem: row for row in csv.DictReader(file)}
    for word in re.findall(r"\w+", query):
        if word in row_of:  # the first table of the query is what it is about
            row = row_of[word]
            return f"Measured on {row['date']}, commit {row['commit']}, {row['machine']}."
    return ""


def rendered(template: str, results: Path = RESULTS) -> str:
    """A template with values, claims and tables in place of their names."""
    return NAMED.sub(lambda found: shown(results / found[1], found[2], found[3]), template)


def pages() -> dict[Path, Path]:
    """The page of each template. It has the same place in docs/, but README.md is that of the repository."""
    found = {}
    for template in sorted(TEMPLATES.rglob("*.md.in")):
        place = template.relative_to(TEMPLATES).with_suffix("")
        if place == Path("README.md"):
            found[template] = ROOT / place
        else:
            found[template] = ROOT / "docs" / place
    return found


if __name__ == "__main__":
    written = {page: rendered(template.read_text()) for template, page in pages().items()}
    for page, text in written.items():
        page.write_text(text)

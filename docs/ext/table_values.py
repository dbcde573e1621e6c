"""Numbers and verdicts on the pages come from the published tables.

.venv/bin/python docs/ext/table_values.py    # writes them into README.md and the pages

A link to a CSV file whose title is a query has the result as its text:

    [0.269](results/zoo/significance.csv "select format('%.3f', gain) from significance where baseline = 'Muon'")

A comment with a query has a table below it:

    <!-- table of results/zoo/significance.csv
    select arena, baseline, verdict from significance
    -->

    <!-- end -->

Queries are SQL of SQLite 3.39 or newer. Their tables are the CSV files of the folder, by name; empty cells are NULL,
TRUE and FALSE are 1 and 0. The build of the site evaluates them again, and so does a test.
"""

import csv
import re
import sqlite3
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measured import age, ages, measurement

from fairbench.analysis.statistics.significance import paired_t
from fairbench.common import formatting

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent.parent
PAGES = (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md")))
VALUE = re.compile(r'\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+\.csv)\s"([^"]*)"\)')
TABLE = re.compile(r"(<!-- table of (\S+\.csv)\n(.*?)\n-->\n).*?(<!-- end -->)", re.DOTALL)
NUMERAL = re.compile(r"-?(?:0|[1-9]\d*)((?:\.\d+)?(?:e[-+]\d+)?)")
"""As Python writes numbers; the commits 0012345 and 12e3456 are none."""
WRITERS = ("exact", "interval", "number", "p_value", "percent", "rate")
"""Functions that write numbers."""
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
        test = paired_t(*zip(*self.pairs, strict=True))
        return formatting.interval(test.difference, test.ci_low, test.ci_high)


def typed(text: str) -> str | float | None:
    """A cell of a CSV file as a value of SQL."""
    if text in ("TRUE", "FALSE"):
        return text == "TRUE"
    if number := NUMERAL.fullmatch(text):
        return float(text) if number[1] else int(text)
    return text or None


@cache
def database(folder: Path) -> sqlite3.Connection:
    """The CSV files of a folder as tables, with functions that write numbers and verdicts."""
    connection = sqlite3.connect(":memory:")
    for name in WRITERS:
        connection.create_function(name, -1, getattr(formatting, name))
    connection.create_function("in_words", 1, lambda n: WORDS[n] if n < len(WORDS) else str(n))
    connection.create_aggregate("paired", 2, Paired)
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            names, *rows = csv.reader(file)
        columns = ", ".join(f"[{name}]" for name in names)
        connection.execute(f"create table [{path.stem}] ({columns})")
        values = ([typed(cell) for cell in row] for row in rows)
        connection.executemany(f"insert into [{path.stem}] values ({', '.join('?' * len(names))})", values)
    return connection


def results_of(query: str, path: Path) -> sqlite3.Cursor:
    """The rows of a query of a file.

    Raises:
        ValueError: there is no such file, or the query fails or does not read it.
    """
    if not path.exists() or not re.search(rf"\b{path.stem}\b", query):
        raise ValueError(f"{path.name}: there is no such file, or the query does not read it: {query}")
    try:
        return database(path.parent.resolve()).execute(query)
    except sqlite3.Error as error:
        raise ValueError(f"{path.name}: {error} in: {query}") from None


def value_of(query: str, path: Path) -> str:
    """The result of a query as text.

    Raises:
        ValueError: it has not one value.
    """
    rows = results_of(query, path).fetchall()
    if len(rows) != 1 or len(rows[0]) != 1 or rows[0][0] is None:
        raise ValueError(f"{path.name}: {rows} instead of one value: {query}")
    return str(rows[0][0])


def table_of(query: str, path: Path, *, aged: bool) -> str:
    """The rows of a query as Markdown, and where they were measured."""
    cursor = results_of(query, path)
    lines = [[column[0] for column in cursor.description], *cursor]
    head, *body = (f"| {' | '.join(formatting.NONE if x is None else str(x) for x in line)} |" for line in lines)
    source = measurement(path)
    foot = [f"<sub>{source}{age(source) if aged else ''}</sub>", ""] if source else []
    return "\n".join(["", head, "|---" * len(lines[0]) + "|", *body, "", *foot])


def rendered(page: str, folder: Path, *, aged: bool = False) -> str:
    """A page with the present values in its links and tables.

    Args:
        page: Markdown.
        folder: that to which the links are relative.
        aged: whether tables say how often their code has changed since.
    """
    page = VALUE.sub(lambda x: f'[{value_of(x[3], folder / x[2])}]({x[2]} "{x[3]}")', page)
    return TABLE.sub(lambda x: f"{x[1]}{table_of(x[3], folder / x[2], aged=aged)}{x[4]}", page)


def render(app: "Sphinx", page: str, source: list[str]) -> None:
    """Evaluate the queries of a page of the site."""
    source[0] = rendered(source[0], Path(app.env.doc2path(page)).parent, aged=True)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register it."""
    app.connect("source-read", render)
    app.connect("build-finished", lambda *_: print(*ages(), sep="\n"))
    return {"version": "1", "parallel_read_safe": True}


if __name__ == "__main__":
    for changed in PAGES:
        changed.write_text(rendered(changed.read_text(), changed.parent))

"""Numbers and verdicts on the pages are those of the published tables."""

import csv
import re
import sqlite3
import sys
from pathlib import Path

import pytest

from fairbench.study.history import read_history

pytestmark = pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 39), reason="queries use SQLite 3.39")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
from render import NAMED, RESULTS, declared, measured, pages, rendered  # noqa: E402

TEMPLATES = pages()
MEASURED = [x for x in TEMPLATES if x.name == "README.md.in" or x.name in ("what-we-found.md.in", "performance.md.in")]
"""Pages on which every number comes from a table."""
VERDICT = re.compile(r"\b(?:better|worse|equivalent|no\s+difference)\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])(?:\d*\.\d+|\d+\s?%)(?![\w.]*\.\d)")
NO_CLAIM = (
    r"```.*?```", r"(?m)^\n(?:(?: {4}|\t).*\n)+", r"`[^`]*`", r"\*[a-z]+\*", r"\]\([^)]*\)",
    r"alt=\"[^\"]*\"", r"(?m)^\| (?:versions|Python|torch) \|.*$", r"95% interval",
    r"(?:Python|python3|torch) \(?[\d.]+(?:\+cpu)?(?: to [\d.]+)?",
)  # fmt: skip
"""Code, names of verdicts in italics, links, alternative texts, versions, and the level of intervals."""


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: str(template.relative_to(ROOT)))
def test_a_page_has_the_numbers_of_the_tables(template):
    page = TEMPLATES[template].read_text()
    assert rendered(template.read_text()) == page, f"edit {template.name}, then run docs/render.py"


@pytest.mark.parametrize("template", MEASURED, ids=lambda template: str(template.relative_to(ROOT)))
def test_no_number_and_no_verdict_is_typed(template):
    text = NAMED.sub("", template.read_text())
    for pattern in NO_CLAIM:
        text = re.sub(pattern, "", text, flags=re.DOTALL if "```" in pattern else 0)
    assert not [*VERDICT.findall(text), *NUMBER.findall(text)]


def test_every_name_is_on_a_page():
    used = {(found[1], found[2]) for template in TEMPLATES for found in NAMED.finditer(template.read_text())}
    folders = [path.parent for path in RESULTS.glob("*/values.toml")]
    assert {(folder.name, name) for folder in folders for kind in declared(folder).values() for name in kind} == used


@pytest.fixture
def scores(tmp_path):
    """A folder of results with a table."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "scores.csv").write_text("arena,verdict,gain,seen\ngpt,worse,-0.0214,TRUE\n1e9,equivalent,0.5,\n")
    (folder / "measured.csv").write_text("file,date,commit,machine,code\nscores.csv,2026-11-26,abc1234,a CPU,src\n")
    (folder / "values.toml").write_text(
        """
        [values]
        loss = "select verdict || ' by ' || number(gain) from scores where seen"
        two = "select arena from scores"
        none = "select case when gain > 0 then 'a gain' end from scores where arena = 'gpt'"
        column = "select speed from scores"
        syntax = "scores"
        [claims]
        loses = "select gain < 0 from scores where arena = 'gpt'"
        wins = "select gain > 0 from scores where arena = 'gpt'"
        [tables]
        all = "select arena, seen as told from scores"
        """
    )
    return tmp_path


def test_a_value_a_claim_and_a_table(scores):
    page = rendered("It is {{ mine.loss }}: {{ mine.loses: it loses }}.\n\n{{ mine.all }}\n", scores)
    assert page == (
        "It is worse by −0.02140: it loses.\n\n| arena | told |\n| --- | --- |\n| gpt | 1 |\n| 1e9 | – |\n\n"
        "<sub>Measured on 2026-11-26, commit abc1234, a CPU.</sub>\n"
    )


def test_what_is_not_true_is_not_written(scores, check_errors):
    check_errors("pages.txt", lambda name: rendered(f"{{{{ mine.{name} }}}}", scores), ValueError)


def test_every_table_says_where_it_was_measured():
    for path in (path for path in RESULTS.rglob("*.csv") if path.name != "measured.csv"):
        said = measured(path.parent, path.stem)
        assert re.fullmatch(r"Measured on 2\d{3}-\d\d-\d\d, commit [0-9a-f]{7}(\+changes)?, .+\.", said), path
    with (RESULTS / "benchmarks/measured.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert all((ROOT / path).exists() for row in rows for path in (row["script"], *row["code"].split()))


@pytest.mark.parametrize("config", sorted(RESULTS.glob("*/config.json")), ids=lambda x: x.parent.name)
def test_published_plans_can_be_read(config):
    assert read_history(config.parent).plans[-1].study.suite.name == config.parent.name

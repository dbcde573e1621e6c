"""Numbers and verdicts on the pages are those of the published tables."""

import csv
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fairbench.study.history import read_history

pytestmark = pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 39), reason="queries use SQLite 3.39")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs/ext"))
from measured import Measurement, age, measurement  # noqa: E402
from table_values import PAGES, TABLE, VALUE, rendered  # noqa: E402

RESULTS = [ROOT / "README.md", *(ROOT / f"docs/{name}.md" for name in ("what-we-found", "performance")),
           *sorted((ROOT / "docs/results").rglob("README.md"))]  # fmt: skip
"""Pages on which every number comes from a table."""
VERDICT = re.compile(r"\b(?:better|worse|equivalent|no\s+difference)\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])(?:\d*\.\d+|\d+\s?%)(?![\w.]*\.\d)")
NO_CLAIM = (
    r"```.*?```", r"(?m)^\n(?:(?: {4}|\t).*\n)+", r"`[^`]*`", r"<!--.*?-->", r"\*[a-z]+\*", r"\]\([^)]*\)",
    r"alt=\"[^\"]*\"", r"(?m)^\| (?:versions|Python|torch) \|.*$", r"95% interval",
    r"(?:Python|python3|torch) \(?[\d.]+(?:\+cpu)?(?: to [\d.]+)?",
)  # fmt: skip
"""Code, names of verdicts in italics, links, alternative texts, versions, and the level of intervals."""


def typed(page):
    """The text of a page without the values of the tables, code, and names of verdicts."""
    text = TABLE.sub("", VALUE.sub("", page.read_text()))
    for pattern in NO_CLAIM:
        text = re.sub(pattern, "", text, flags=re.DOTALL if "```" in pattern or "<!--" in pattern else 0)
    return text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_numbers_are_those_of_the_tables(page):
    assert rendered(page.read_text(), page.parent) == page.read_text(), "run docs/ext/table_values.py"


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_number_and_no_verdict_is_typed(page):
    text = typed(page)
    assert not [*VERDICT.findall(text), *NUMBER.findall(text)]


def test_a_value_and_a_table_of_a_file(tmp_path):
    (tmp_path / "scores.csv").write_text("arena,verdict,gain,seen\ngpt,worse,-0.0214,TRUE\n1e9,equivalent,0.5,\n")
    (tmp_path / "measured.csv").write_text("file,date,commit,machine,code\nscores.csv,2026-11-26,abc1234,a CPU,src\n")
    value = "[old](scores.csv \"select verdict || ' by ' || number(gain) from scores where seen\")"
    table = "<!-- table of scores.csv\nselect arena, seen as told from scores\n-->\nold\n<!-- end -->"
    page = rendered(f"{value}\n{table}", tmp_path)
    assert page.startswith(value.replace("old", "worse by −0.02140"))
    assert (
        "\n| arena | told |\n|---|---|\n| gpt | 1 |\n| 1e9 | – |\n\n<sub>Measured on 2026-11-26, commit abc1234, a CPU."
        in page
    )
    assert rendered(page, tmp_path) == page


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select arena from scores", "2 rows|instead of one value"),
        ("select case when gain > 0 then 'a gain' end from scores where arena = 'gpt'", "instead of one value"),
        (
            "with high as (select * from scores where gain > 0) select arena from high where arena = 'gpt'",
            "instead of",
        ),
        ("select loss from scores", "no such column: loss"),
        ("scores", "syntax error"),
        ("select 1 from others", "does not read it"),
    ],
)
def test_a_false_claim_is_an_error(query, message, tmp_path):
    (tmp_path / "scores.csv").write_text("arena,gain\ngpt,-0.5\nvit,0.5\n")
    with pytest.raises(ValueError, match=message):
        rendered(f'[a gain](scores.csv "{query}")', tmp_path)


def test_every_table_says_where_it_was_measured():
    for path in (ROOT / "docs/results").rglob("*.csv"):
        if known := measurement(path):
            assert re.fullmatch(r"2\d{3}-\d\d-\d\d [0-9a-f]{7}(\+changes)?", f"{known.date} {known.commit}"), path
            assert all((ROOT / code).exists() for code in known.code), path
    with (ROOT / "docs/results/benchmarks/measured.csv").open() as file:
        scripts = {row["script"] for row in csv.DictReader(file)}
    assert all((ROOT / script).exists() for script in scripts)


def test_a_table_says_how_often_its_code_has_changed(tmp_path, monkeypatch):
    def git(*words):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    monkeypatch.setattr("measured.ROOT", tmp_path)
    git("init", "-q")
    for name in ("code.py", "code.py", "other.py"):
        (tmp_path / name).open("a").write("1\n")
        git("add", name)
        git("commit", "-qm", name)
    first = git("rev-list", "HEAD").split()[-1]
    assert age(Measurement("", first, "", ("code.py",))) == " Since then 1 commit has changed code.py."
    assert age(Measurement("", f"{first}+changes", "", ("code.py", "other.py"))).startswith(
        " Since then 2 commits have"
    )
    assert age(Measurement("", first, "", ("absent.py",))) == age(Measurement("", "0" * 40, "", ("code.py",))) == ""


@pytest.mark.parametrize("config", sorted((ROOT / "docs/results").glob("*/config.json")), ids=lambda x: x.parent.name)
def test_published_plans_can_be_read(config):
    assert read_history(config.parent).plans[-1].study.suite.name == config.parent.name

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
MEASURED_NAMES = ("README.md.in", "what-we-found.md.in", "performance.md.in")
MEASURED = [template for template in TEMPLATES if template.name in MEASURED_NAMES]
"""Pages on which every number comes from a table."""
STUDIES = [template for template, page in TEMPLATES.items() if (page.parent / "significance.csv").exists()]
"""Pages of the published studies."""
VERDICT = re.compile(r"\b(?:better|worse|equivalent|no\s+difference)\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])(?:\d*\.\d+|\d+\s?%)(?![\w.]*\.\d)")
NO_CLAIM = (
    re.compile(r"```.*?```", re.DOTALL),
    re.compile(r"^\n(?:(?: {4}|\t).*\n)+", re.MULTILINE),
    re.compile(r"`[^`]*`"),
    re.compile(r"\*[a-z]+\*"),
    re.compile(r"\]\([^)]*\)"),
    re.compile(r"alt=\"[^\"]*\""),
    re.compile(r"^\| (?:versions|Python|torch) \|.*$", re.MULTILINE),
    re.compile(r"95% interval"),
    re.compile(r"Is my change better\?|Is B really better than A\?"),
    re.compile(r"(?:Python|python3|torch) \(?[\d.]+(?:\+cpu)?(?: to [\d.]+)?"),
)
"""Code, names of verdicts in italics, links, alternative texts, versions, levels, and the questions of pages."""


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: str(template.relative_to(ROOT)))
def test_a_page_has_the_numbers_of_the_tables(template):
    page = TEMPLATES[template].read_text()
    assert rendered(template.read_text()) == page, f"edit {template.relative_to(ROOT)}, then run docs/render.py"


def claims(template):
    """The text of a template without what is written from tables, and without what claims nothing."""
    text = NAMED.sub("", template.read_text())
    for pattern in NO_CLAIM:
        text = pattern.sub("", text)
    return text


@pytest.mark.parametrize("template", MEASURED, ids=lambda template: str(template.relative_to(ROOT)))
def test_no_number_is_typed(template):
    assert not NUMBER.findall(claims(template))


@pytest.mark.parametrize("template", [*MEASURED, *STUDIES], ids=lambda template: str(template.relative_to(ROOT)))
def test_no_verdict_is_typed(template):
    assert not VERDICT.findall(claims(template))


@pytest.mark.parametrize("template", STUDIES, ids=lambda template: template.parent.name)
def test_a_page_says_whether_equivalent_is_corrected(template):
    with (TEMPLATES[template].parent / "significance.csv").open() as file:
        is_corrected = "p_equivalence_holm" in next(csv.reader(file))
    says_it_is_not = re.search(r"\*equivalent\*[^.;]* not corrected", template.read_text()) is not None
    assert says_it_is_not != is_corrected


def test_every_name_is_on_a_page():
    used = set()
    for template in TEMPLATES:
        for found in NAMED.finditer(template.read_text()):
            used.add((found[1], found[2]))
    names = set()
    for path in RESULTS.glob("*/values.toml"):
        for queries in declared(path.parent).values():
            for name in queries:
                names.add((path.parent.name, name))
    assert names == used


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
    for path in RESULTS.rglob("*.csv"):
        if path.name == "measured.csv":
            continue
        said = measured(path.parent, path.stem)
        assert re.fullmatch(r"Measured on 2\d{3}-\d\d-\d\d, commit [0-9a-f]{7}(\+changes)?, .+\.", said), path
    with (RESULTS / "benchmarks/measured.csv").open() as file:
        for row in csv.DictReader(file):
            for path in (row["script"], *row["code"].split()):
                assert (ROOT / path).exists(), path


@pytest.mark.parametrize("config", sorted(RESULTS.glob("*/config.json")), ids=lambda x: x.parent.name)
def test_published_plans_can_be_read(config):
    last_plan = read_history(config.parent).plans[-1]
    assert last_plan.study.suite.name == config.parent.name

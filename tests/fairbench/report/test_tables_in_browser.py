"""Tables of the page in a real Chromium: sorting, filters, links to a view, downloads."""

import re
import time

import pytest
from chromium import hexadecimal, wait_until
from csv_columns import rows_of
from fabricated import analysed, given
from pages import FOUND, broken, latex

from fairbench.report.figures.colors import COLORS
from fairbench.report.study import study_report

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

ROWS = """
return [...document.querySelectorAll(`#table-${arguments[0]} tbody tr`)].filter((row) => row.getClientRects().length)
    .map((row) => [...row.cells].map((cell) => cell.textContent))
"""
HEAD = "const head = document.querySelectorAll(`#table-${arguments[0]} thead th`)[arguments[1]];"
PRESS = f"{HEAD} head.querySelector('button').click(); return head.ariaSort"
CELLS = """
return [...document.querySelectorAll(`#table-${arguments[0]} tbody tr`)].map((row) => row.cells[arguments[1]])
    .map((cell) => cell.dataset.value ?? cell.textContent)
"""
TYPED = """
const field = document.querySelector(arguments[0]);
field.value = arguments[1];
field.dispatchEvent(new Event('input', {bubbles: true}));
"""
SEVERITIES = ["fail", "warn", "note"]


@pytest.mark.parametrize(
    ("page", "table", "column", "key"),
    [
        ("real", "metrics", 3, float), pytest.param("real", "verdicts", 1, float, marks=pytest.mark.soak),
        pytest.param("real", "comparisons", 9, float, marks=pytest.mark.soak),
        ("real", "budget", 1, str.casefold), ("browser", "audit", 1, SEVERITIES.index),
    ],
)  # fmt: skip
def test_tables_are_sorted_and_a_third_press_brings_their_first_order_back(request, page, table, column, key):
    """By numbers, the place of a verdict, words, or the weight of a severity; missing values come last."""
    browser = request.getfixturevalue(page)
    values = browser.execute_script(CELLS, table, column)
    arrow = browser.execute_script(f"{HEAD} return getComputedStyle(head.firstChild, '::after').content", table, column)
    assert arrow.endswith('/ ""'), "the arrow is not part of the name"
    for direction, reverse in (("ascending", False), ("descending", True)):
        assert browser.execute_script(PRESS, table, column) == direction
        known = [value for value in values if value != "–"]
        missing = [value for value in values if value == "–"]
        known.sort(key=key, reverse=reverse)
        assert browser.execute_script(CELLS, table, column) == known + missing
    assert browser.execute_script(PRESS, table, column) is None
    assert browser.execute_script(CELLS, table, column) == values


def test_tables_are_filtered_and_searched(real):
    """A search opens the folds that have what it finds, and closes them again."""
    for table, words in (("metrics", "VIT-loss adamw"), ("verdicts", "explodes DIVERGED")):
        every = real.execute_script(ROWS, table)
        real.execute_script(TYPED, f"#table-{table} input", words)
        chosen = [row for row in every if has_words(row, words)]
        assert real.execute_script(ROWS, table) == chosen != []
        real.execute_script(TYPED, f"#table-{table} input", "")
        assert real.execute_script(ROWS, table) == every != chosen
    every = real.execute_script(ROWS, "metrics")
    real.execute_script("document.querySelectorAll('details').forEach((details) => details.open = false)")
    real.execute_script(TYPED, "#find", "accuracy explodes")
    chosen = [row for row in every if row[1].startswith("accuracy") and row[2] == "Explodes"]
    assert real.execute_script(ROWS, "metrics") == chosen
    assert real.execute_script("return document.querySelector('output').value") == "3 rows in 2 tables"
    assert not real.execute_script(ROWS, "budget")
    real.execute_script(TYPED, "#find", "")
    assert real.execute_script("return document.querySelectorAll('details[open]').length") == 0


FILTERS = """
return [...document.querySelectorAll('[data-table]')].map((place) => [
    place.querySelectorAll('tbody tr').length, place.querySelector('.tools input').getClientRects().length])
"""


def test_only_long_tables_show_a_filter(real):
    """One that a link has filtered shows it too."""
    for rows, fields in real.execute_script(FILTERS):
        assert fields == (rows > 8)
    real.get("about:blank")
    real.get(f"{real.page}#table-verdicts?verdicts.filter=vit")
    assert real.execute_script("return document.querySelector('#table-verdicts input').getClientRects().length")


def has_words(row, words):
    """Whether each of the words is in a row, in upper or lower case."""
    text = " ".join(row).lower()
    return all(word in text for word in words.lower().split())


def test_a_link_keeps_the_view(real):
    real.execute_script(TYPED, "#table-metrics input", "loss")
    for _ in range(2):
        real.execute_script(PRESS, "metrics", 3)
    shown = real.execute_script(ROWS, "metrics")
    view = real.execute_script("return location.hash")
    assert view == "#?metrics.filter=loss&metrics.order=-4"
    real.get("about:blank")
    real.get(f"{real.page}{view.replace('#', '#table-metrics')}&theme=dark")
    assert real.execute_script(ROWS, "metrics") == shown
    assert real.execute_script("return document.querySelector('#table-metrics').getBoundingClientRect().top") < 200
    paper = real.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert hexadecimal(paper) == COLORS["paper"].dark
    real.execute_script("document.querySelector('nav a[href=\"#cost\"]').click()")
    wait_until(real, "location.hash === '#cost?metrics.filter=loss&metrics.order=-4&theme=dark'")


def test_a_table_is_downloaded(real, tmp_path):
    real.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    press = "[...document.querySelectorAll(`#table-comparisons .tools button`)].forEach((button) => button.click())"
    real.execute_script(press)
    csv_file = tmp_path / "comparisons.csv"
    tex_file = tmp_path / "comparisons.tex"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if csv_file.exists() and tex_file.exists():
            break
        time.sleep(0.02)
    shown = real.execute_script("return rowsCsv(document.querySelector('[data-table=comparisons]'))")
    assert csv_file.read_bytes().decode() == shown
    assert tex_file.read_text() == latex(real.page_source)["comparisons"]


def test_a_csv_has_all_that_a_table_shows(browser):
    """Numbers in full, with the further ones that their text shows; text where it says more than numbers."""
    tables = study_report(given(analysed(*broken()), FOUND)).tables
    files = browser.execute_script(
        "return Object.fromEntries(places.map((place) => [place.dataset.table, rowsCsv(place)]))"
    )
    assert files.keys() == tables.keys()
    with_text = set()
    for name, table in tables.items():
        rows = rows_of(files[name])
        assert len(rows) == len(table.rows)
        for row, cells in zip(rows, table.rows, strict=True):
            for column, cell in zip(table.columns, cells, strict=True):
                further = [number(row[f"{column.title} {part}"]) for part in column.more]
                assert further == list(cell.more)
                if column.value:
                    assert number(row[column.title]) == cell.value
                    if says_more_than_a_number(cell):
                        assert row[f"{column.title}, as shown"] == str(cell.text).strip()
                        with_text.add(name)
                elif name == "verdicts" and column.more:
                    assert str(cell.text).startswith(row[column.title])
                    assert row[column.title].startswith(("better", "worse", "incomplete"))
                else:
                    assert row[column.title] == " ".join(str(cell.text).split("\n")).strip()
    assert "main" in with_text


def number(text):
    """The number in a field of a CSV file, None in an empty one."""
    return float(text) if text else None


def says_more_than_a_number(cell):
    without_exponents = re.sub(r"\de[+−]\d", "", str(cell.text))
    return bool(re.search(r"[a-zA-Z†]", without_exponents))

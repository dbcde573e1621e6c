"""Tables of the page in a real Chromium: sorting, filters, links to a view, downloads."""

import csv
import time

import pytest
from chromium import hexadecimal, wait_until
from pages import latex

from fairbench.report.figures.colors import COLORS

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

ROWS = """
return [...document.querySelectorAll(`#table-${arguments[0]} tbody tr`)].filter((row) => row.getClientRects().length)
    .map((row) => [...row.cells].map((cell) => cell.textContent))
"""
METRICS = "const table = document.querySelector('#table-metrics table');"
COLUMN = f"{METRICS} return [...table.tBodies[0].rows].map((row) => row.cells[3].textContent)"
SORT = f"{METRICS} const head = table.tHead.rows[0].cells[3];"


def test_tables_are_sorted_and_a_third_press_brings_their_first_order_back(browser):
    values = browser.execute_script(COLUMN)
    arrow = browser.execute_script(f"{SORT} return getComputedStyle(head.firstChild, '::after').content")
    assert arrow.endswith('/ ""'), "the arrow is not part of the name"
    for direction, reverse in (("ascending", False), ("descending", True)):
        state = browser.execute_script(f"{SORT} head.querySelector('button').click(); return head.ariaSort")
        assert state == direction
        assert browser.execute_script(COLUMN) == sorted(values, key=float, reverse=reverse) != values
    assert browser.execute_script(f"{SORT} head.querySelector('button').click(); return head.ariaSort") is None
    assert browser.execute_script(COLUMN) == values


GRID = "const table = document.querySelector('#table-verdicts table');"
STYLES = f"{GRID} return [...table.tBodies[0].rows].map((row) => row.cells[1].className)"


def test_the_grid_of_verdicts_is_sorted_by_advantage(browser):
    """The verdicts of an arena, from the largest advantage to the smallest; those without one come last."""
    press = f"{GRID} table.tHead.rows[0].cells[1].querySelector('button').click()"
    cells = f"{GRID} return [...table.tBodies[0].rows].map((row) => row.cells[1].dataset.value)"
    found = browser.execute_script(cells)
    for reverse in (False, True):
        browser.execute_script(press)
        assert browser.execute_script(cells) == sorted(found, key=float, reverse=reverse)


def test_severities_are_sorted_by_their_weight(browser):
    browser.execute_script("document.querySelectorAll('#table-audit th button')[1].click()")
    rows = "return [...document.querySelectorAll('#table-audit tbody tr')].map((row) => row.cells[1].textContent)"
    assert browser.execute_script(rows) == ["fail", "warn", "note"]


TYPED = """
const field = document.querySelector(arguments[0]);
field.value = arguments[1];
field.dispatchEvent(new Event('input', {bubbles: true}));
"""


def test_tables_are_filtered_and_searched(browser):
    every = browser.execute_script(ROWS, "metrics")
    browser.execute_script(TYPED, "#table-metrics input", "VIT adamw")
    assert browser.execute_script(ROWS, "metrics") == [row for row in every if row[0] == "vit" and row[2] == "AdamW"]
    browser.execute_script(TYPED, "#table-metrics input", "")
    browser.execute_script("document.querySelectorAll('details').forEach((details) => details.open = false)")
    browser.execute_script(TYPED, "#find", "perplexity lion")
    assert browser.execute_script(ROWS, "metrics") == [row for row in every if row[1:3] == ["perplexity", "Lion"]]
    assert browser.execute_script("return document.querySelector('output').value") == "1 row in 1 table"
    assert not browser.execute_script(ROWS, "comparisons")
    browser.execute_script(TYPED, "#find", "")
    assert browser.execute_script("return document.querySelectorAll('details[open]').length") == 0


def test_the_grid_of_verdicts_is_filtered(real):
    """Of a study that ran, by the name of a baseline."""
    every = real.execute_script(ROWS, "verdicts")
    real.execute_script(TYPED, "#table-verdicts input", "explodes DIVERGED")
    (row,) = real.execute_script(ROWS, "verdicts")
    assert row in every
    assert row[0] == "Explodes"
    real.execute_script(TYPED, "#table-verdicts input", "")
    assert real.execute_script(ROWS, "verdicts") == every


def test_a_link_keeps_the_view(browser):
    browser.execute_script(TYPED, "#table-metrics input", "gpt")
    browser.execute_script(f"{SORT} head.querySelector('button').click(); head.querySelector('button').click()")
    shown = browser.execute_script(ROWS, "metrics")
    view = browser.execute_script("return location.hash")
    assert view == "#?metrics.filter=gpt&metrics.order=-4"
    browser.get("about:blank")
    browser.get(f"{browser.page}{view.replace('#', '#table-metrics')}&theme=dark")
    assert browser.execute_script(ROWS, "metrics") == shown
    assert browser.execute_script("return document.querySelector('#table-metrics').getBoundingClientRect().top") < 200
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert hexadecimal(paper) == COLORS["paper"][True]
    browser.execute_script("document.querySelector('nav a[href=\"#cost\"]').click()")
    wait_until(browser, "location.hash === '#cost?metrics.filter=gpt&metrics.order=-4&theme=dark'")


def test_a_table_is_downloaded(browser, tmp_path):
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    press = "[...document.querySelectorAll(`#table-comparisons .tools button`)].forEach((button) => button.click())"
    browser.execute_script(press)
    files = [tmp_path / f"comparisons.{suffix}" for suffix in ("csv", "tex")]
    deadline = time.monotonic() + 60
    while not all(file.exists() for file in files) and time.monotonic() < deadline:
        time.sleep(0.02)
    rows = list(csv.DictReader(files[0].open()))
    row = next(row for row in rows if (row["Arena"], row["Baseline"]) == ("vit", "AdamW"))
    assert float(row["Advantage [95% CI]"]) == pytest.approx(0.4, abs=1e-12)
    assert float(row["Advantage [95% CI] low"]) < 0.4 < float(row["Advantage [95% CI] high"])
    assert len(rows) == 6
    assert files[1].read_text() == latex(browser.page_source)["comparisons"]


def test_missing_values_come_last(browser):
    table = "const table = document.querySelector('#table-comparisons table');"
    column = f"{table} return [...table.tBodies[0].rows].map((row) => row.cells[9].textContent)"
    assert "–" in browser.execute_script(column)[:-1]
    for _ in range(2):
        browser.execute_script(f"{table} table.tHead.rows[0].cells[9].querySelector('button').click()")
        values = browser.execute_script(column)
        known = [value for value in values if value != "–"]
        assert known
        assert values == known + ["–"] * (len(values) - len(known))


def test_words_are_sorted_as_words(browser):
    browser.execute_script("document.querySelector('#table-budget th:nth-child(2) button').click()")
    found = [row[1] for row in browser.execute_script(ROWS, "budget")]
    assert found[-2:] == ["PsiLogic", "PsiLogic"]
    assert found[2:4] == ["AdamW", "AdamW"]

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


def test_tables_are_sorted_and_a_third_press_brings_their_first_order_back(real):
    values = real.execute_script(COLUMN)
    arrow = real.execute_script(f"{SORT} return getComputedStyle(head.firstChild, '::after').content")
    assert arrow.endswith('/ ""'), "the arrow is not part of the name"
    for direction, reverse in (("ascending", False), ("descending", True)):
        state = real.execute_script(f"{SORT} head.querySelector('button').click(); return head.ariaSort")
        assert state == direction
        known = sorted((value for value in values if value != "–"), key=float, reverse=reverse)
        assert real.execute_script(COLUMN) == known + ["–"] * (len(values) - len(known)) != values
    assert real.execute_script(f"{SORT} head.querySelector('button').click(); return head.ariaSort") is None
    assert real.execute_script(COLUMN) == values


GRID = "const table = document.querySelector('#table-verdicts table');"
STYLES = f"{GRID} return [...table.tBodies[0].rows].map((row) => row.cells[1].className)"


def test_the_grid_of_verdicts_is_sorted_by_advantage(real):
    """The verdicts of an arena, from the largest advantage to the smallest; those without one come last."""
    press = f"{GRID} table.tHead.rows[0].cells[1].querySelector('button').click()"
    cells = f"{GRID} return [...table.tBodies[0].rows].map((row) => row.cells[1].dataset.value)"
    found = real.execute_script(cells)
    for reverse in (False, True):
        real.execute_script(press)
        assert real.execute_script(cells) == sorted(found, key=float, reverse=reverse)


def test_severities_are_sorted_by_their_weight(browser):
    browser.execute_script("document.querySelectorAll('#table-audit th button')[1].click()")
    rows = "return [...document.querySelectorAll('#table-audit tbody tr')].map((row) => row.cells[1].textContent)"
    assert browser.execute_script(rows) == ["fail", "warn", "note"]


TYPED = """
const field = document.querySelector(arguments[0]);
field.value = arguments[1];
field.dispatchEvent(new Event('input', {bubbles: true}));
"""


def test_tables_are_filtered_and_searched(real):
    every = real.execute_script(ROWS, "metrics")
    real.execute_script(TYPED, "#table-metrics input", "VIT-loss adamw")
    chosen = [row for row in every if row[0] == "vit-loss" and "adamw" in row[2].lower()]
    assert real.execute_script(ROWS, "metrics") == chosen
    real.execute_script(TYPED, "#table-metrics input", "")
    real.execute_script("document.querySelectorAll('details').forEach((details) => details.open = false)")
    real.execute_script(TYPED, "#find", "accuracy explodes")
    chosen = [row for row in every if row[1].startswith("accuracy") and row[2] == "Explodes"]
    assert real.execute_script(ROWS, "metrics") == chosen
    assert real.execute_script("return document.querySelector('output').value") == "4 rows in 3 tables"
    assert not real.execute_script(ROWS, "budget")
    real.execute_script(TYPED, "#find", "")
    assert real.execute_script("return document.querySelectorAll('details[open]').length") == 0


def test_the_grid_of_verdicts_is_filtered(real):
    """Of a study that ran, by the name of a baseline."""
    every = real.execute_script(ROWS, "verdicts")
    real.execute_script(TYPED, "#table-verdicts input", "explodes DIVERGED")
    (row,) = real.execute_script(ROWS, "verdicts")
    assert row in every
    assert row[0] == "Explodes"
    real.execute_script(TYPED, "#table-verdicts input", "")
    assert real.execute_script(ROWS, "verdicts") == every


def test_a_link_keeps_the_view(real):
    real.execute_script(TYPED, "#table-metrics input", "loss")
    real.execute_script(f"{SORT} head.querySelector('button').click(); head.querySelector('button').click()")
    shown = real.execute_script(ROWS, "metrics")
    view = real.execute_script("return location.hash")
    assert view == "#?metrics.filter=loss&metrics.order=-4"
    real.get("about:blank")
    real.get(f"{real.page}{view.replace('#', '#table-metrics')}&theme=dark")
    assert real.execute_script(ROWS, "metrics") == shown
    assert real.execute_script("return document.querySelector('#table-metrics').getBoundingClientRect().top") < 200
    paper = real.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert hexadecimal(paper) == COLORS["paper"][True]
    real.execute_script("document.querySelector('nav a[href=\"#cost\"]').click()")
    wait_until(real, "location.hash === '#cost?metrics.filter=loss&metrics.order=-4&theme=dark'")


def test_a_table_is_downloaded(real, small_study, tmp_path):
    real.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    press = "[...document.querySelectorAll(`#table-comparisons .tools button`)].forEach((button) => button.click())"
    real.execute_script(press)
    files = [tmp_path / f"comparisons.{suffix}" for suffix in ("csv", "tex")]
    deadline = time.monotonic() + 60
    while not all(file.exists() for file in files) and time.monotonic() < deadline:
        time.sleep(0.02)
    rows, truth = (list(csv.DictReader(path.open())) for path in (files[0], small_study / "significance.csv"))
    assert [(row["Arena"], row["Baseline"]) for row in rows] == [(row["arena"], row["baseline"]) for row in truth]
    names = {"": "advantage", " low": "ci_low", " high": "ci_high"}
    for row, true in zip(rows, truth, strict=True):
        shown = [row[f"Advantage [95% CI]{end}"].replace("–", "") for end in names]
        assert shown == [true[name] for name in names.values()]
    assert files[1].read_text() == latex(real.page_source)["comparisons"]


def test_missing_values_come_last(real):
    table = "const table = document.querySelector('#table-comparisons table');"
    column = f"{table} return [...table.tBodies[0].rows].map((row) => row.cells[9].textContent)"
    assert "–" in real.execute_script(column)[:-1]
    for _ in range(2):
        real.execute_script(f"{table} table.tHead.rows[0].cells[9].querySelector('button').click()")
        values = real.execute_script(column)
        known = [value for value in values if value != "–"]
        assert known
        assert values == known + ["–"] * (len(values) - len(known))


def test_words_are_sorted_as_words(real):
    real.execute_script("document.querySelector('#table-budget th:nth-child(2) button').click()")
    found = [row[1] for row in real.execute_script(ROWS, "budget")]
    assert found == sorted(found, key=str.casefold)
    assert len({*found}) == 4

"""What the page's downloads of tables contain, in a real Chromium, against the tables that it was made from."""

import csv
import io
import re

import pytest
from fabricated import given, history
from pages import FOUND, broken

from fairbench.analysis.analyses import Analyses
from fairbench.report.tables.results import all_tables

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]


def test_a_csv_has_all_that_a_table_shows(browser):
    """Numbers in full, with the further ones that their text shows; text where it says more than numbers."""
    tables = all_tables(given(Analyses(history(broken()[0]), broken()[1]), FOUND))
    files = browser.execute_script(
        "return Object.fromEntries(places.map((place) => [place.dataset.table, rowsCsv(place)]))"
    )
    assert files.keys() == tables.keys()
    said = set()
    for name, table in tables.items():
        rows = list(csv.DictReader(io.StringIO(files[name])))
        assert len(rows) == len(table.rows)
        for row, cells in zip(rows, table.rows, strict=True):
            for column, cell in zip(table.columns, cells, strict=True):
                more = [row[f"{column.title} {part}"] for part in column.more]
                assert [float(x) if x else None for x in more] == [*cell.more]
                if column.value:
                    assert (float(row[column.title]) if row[column.title] else None) == cell.value
                    if re.search(r"[a-zA-Z†]", re.sub(r"\de[+−]\d", "", str(cell.text))):
                        assert row[f"{column.title}, as shown"] == str(cell.text).strip()
                        said.add(name)
                elif name == "verdicts" and column.more:
                    assert str(cell.text).startswith(row[column.title])
                    assert row[column.title].startswith(("better", "worse", "incomplete"))
                else:
                    assert row[column.title] == " ".join(str(cell.text).split("\n")).strip()
    assert "main" in said


def test_the_grid_of_verdicts_has_downloads(browser):
    names = "return [...document.querySelectorAll('#table-verdicts .tools button')].map((button) => button.textContent)"
    assert browser.execute_script(names) == ["CSV", "LaTeX"]
    source = browser.execute_script("return latex('verdicts')")
    assert r"AdamW & worse $-$0.4000 {[}$-$0.4166, $-$0.3834{]} & \textbf{better} +0.4000" in source

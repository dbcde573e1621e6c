"""The page in a real Chromium: it fetches nothing, is read without script, and compares two studies."""

import re

import pytest
from chromium import PHONE, show
from fabricated import Records, finals, history, study

from fairbench.analysis.analyses import Analyses
from fairbench.report.two_studies import two_studies, write_two_studies

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]


def test_the_console_is_empty_and_nothing_is_fetched(real):
    real.get_log("performance")
    real.get_log("browser")
    real.get(real.page)
    assert real.get_log("browser") == []
    events = "".join(entry["message"] for entry in real.get_log("performance"))
    assert set(re.findall(r'"documentURL":"(\w+):', events)) == {"file"}
    assert set(re.findall(r'"request":\{[^{}]*(?:\{[^{}]*\}[^{}]*)*?"url":"(\w+):', events)) <= {"file", "data"}


def test_two_studies_have_the_same_page(driver, tmp_path, monkeypatch):
    """Its table is filtered and packed as LaTeX, and a verdict that changed has a frame."""
    plan = study()
    a, b = (Analyses(history(plan), Records(finals(plan, Lion=x))) for x in ([0.5] * 3, [0.7, 0.71, 0.72]))
    write_two_studies(two_studies(a, b, ("a", "b")), tmp_path)
    monkeypatch.setattr(driver, "page", f"file://{tmp_path}/compare.html")
    driver.get_log("browser")
    show(driver, PHONE, "light")
    assert driver.execute_script("return document.documentElement.scrollWidth") == PHONE
    framed = "[...document.querySelectorAll('.verdicts td')].map((cell) => getComputedStyle(cell).outlineStyle)"
    assert driver.execute_script(f"return {framed}") == ["none", "none", "solid", "solid"] * 2
    driver.execute_script("find.value = 'Lion'; find.dispatchEvent(new Event('input'))")
    assert driver.execute_script("return document.querySelector('output').value") == "6 rows in 3 tables"
    assert "Lion" in driver.execute_script("return latex('values')")
    assert driver.get_log("browser") == []


def test_it_is_read_without_script(real):
    real.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        real.get(real.page)
        seen = "return [...document.querySelectorAll(arguments[0])].map((element) => element.checkVisibility())"
        assert real.execute_script("return document.querySelectorAll('th button').length") == 0, "no script ran"
        assert not any(real.execute_script(seen, "aside, figure .tools"))
        assert all(real.execute_script(seen, "h2, h3, .summary, dd, #table-verdicts td, #table-audit td"))
        assert not any(real.execute_script(seen, "#table-metrics td, #curves svg, search"))
        real.get(f"{real.page}#table-metrics")
        assert all(real.execute_script(seen, "#table-metrics td"))
        real.get(f"{real.page}#figure-learning_curves")
        assert all(real.execute_script(seen, "#figure-learning_curves .panel > svg"))
    finally:
        real.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

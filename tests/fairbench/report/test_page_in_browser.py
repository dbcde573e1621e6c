"""The page in a real Chromium, started once: content, script, accessibility."""

import base64
import csv
import re
import time

import pytest
from chromium import DESKTOP, NARROWEST, PHONE, keys, show
from fabricated import Records, finals, history, study
from pages import contrast, latex

from fairbench.analysis.analyse import analyse
from fairbench.report.figures.colors import COLORS
from fairbench.report.two_studies import two_studies, write_two_studies

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

PAPER = 703  # A4 without its margins of 12 mm


def test_the_console_is_empty_and_nothing_is_fetched(browser):
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(browser.page)
    assert browser.get_log("browser") == []
    events = "".join(entry["message"] for entry in browser.get_log("performance"))
    assert set(re.findall(r'"documentURL":"(\w+):', events)) == {"file"}
    assert set(re.findall(r'"request":\{[^{}]*(?:\{[^{}]*\}[^{}]*)*?"url":"(\w+):', events)) <= {"file", "data"}


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
    assert browser.execute_script("return document.querySelector('output').value") == "1 rows in 1 tables"
    assert not browser.execute_script(ROWS, "comparisons")
    browser.execute_script(TYPED, "#find", "")
    assert browser.execute_script("return document.querySelectorAll('details[open]').length") == 0


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
    wait = "return new Promise((done) => setTimeout(() => done(location.hash), 50))"
    assert browser.execute_script(wait) == "#cost?metrics.filter=gpt&metrics.order=-4&theme=dark"


def test_a_table_is_downloaded(browser, tmp_path):
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    press = "[...document.querySelectorAll(`#table-comparisons .tools button`)].forEach((button) => button.click())"
    browser.execute_script(press)
    files = [tmp_path / f"comparisons.{suffix}" for suffix in ("csv", "tex")]
    deadline = time.monotonic() + 10
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


REACHABLE = """
window.reached = new Set();
document.addEventListener('focusin', ({target}) => window.reached.add(target));
document.querySelectorAll('details').forEach((details) => details.open = true);
window.wanted = [...document.querySelectorAll('a, button, input, select, summary, pre, svg[role=img], [tabindex]')]
    .filter((element) => element.getClientRects().length);
return window.wanted.length
"""
MISSED = "return window.wanted.filter((e) => !window.reached.has(e)).map((e) => e.outerHTML.slice(0, 99))"


def test_the_keyboard_reaches_everything(browser):
    wanted = browser.execute_script(REACHABLE)
    assert wanted > 100
    keys(browser, *["Tab"] * (wanted + 1))
    assert browser.execute_script(MISSED) == []


NAMELESS = """
const told = (element) => (element.getAttribute('aria-labelledby') || '').split(' ').filter(Boolean)
    .map((id) => document.getElementById(id).textContent).join('');
const labels = (element) => [...(element.labels || [])].map((label) => label.textContent).join('');
const name = (element) => element.ariaLabel || told(element) || labels(element) || element.textContent;
const kinds = 'a, button, input, select, summary, h2, h3, [role=region], [role=img], nav, legend';
const nameless = [...document.querySelectorAll('table')].filter((table) => !table.ariaLabel && !told(table));
return [...document.querySelectorAll(kinds)].filter((element) => !name(element).trim()).concat(nameless)
    .map((element) => element.outerHTML.slice(0, 99))
"""
FLAWS = {
    "without a name": NAMELESS,
    "headings that skip a level": """
        const levels = [...document.querySelectorAll('h1, h2, h3, h4')].map((heading) => Number(heading.localName[1]));
        return levels.filter((level, i) => level > (levels[i - 1] ?? 0) + 1)
    """,
    "ids twice": """
        const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
        return ids.filter((id, i) => ids.indexOf(id) !== i)
    """,
    "references to nothing": """
        const lists = [...document.querySelectorAll('[aria-labelledby], [aria-describedby]')].flatMap((element) =>
            ['aria-labelledby', 'aria-describedby'].flatMap((key) => (element.getAttribute(key) || '').split(' ')));
        return lists.filter((id) => id && !document.getElementById(id))
    """,
    "heads without a scope": "return [...document.querySelectorAll('th:not([scope])')].map((head) => head.textContent)",
    "an order of its own": """
        return [...document.querySelectorAll('[tabindex]')].filter((e) => e.tabIndex > 0).map((e) => e.outerHTML)
    """,
    "outside the landmarks": """
        return [...document.body.children].filter((e) => !e.matches('main, script, .skip')).map((e) => e.tagName)
    """,
    "too small to press": """
        return [...document.querySelectorAll('label, nav a, summary')].filter((element) =>
            element.getClientRects().length && element.getBoundingClientRect().height < 24).map((e) => e.outerHTML)
    """,
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_everyone_can_use_it(browser, flaw):
    assert browser.execute_script(FLAWS[flaw]) == []


TEXTS = """
const solid = (color) => !/^rgba\\(.*, 0\\)$|^transparent$/.test(color);
const behind = (element) => {
    while (element && !solid(getComputedStyle(element).backgroundColor)) element = element.parentElement;
    return getComputedStyle(element || document.documentElement).backgroundColor;
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = new Set();
while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const color = element.namespaceURI.endsWith('svg') ? style.fill : style.color;
    found.add(`${color}|${behind(element)}|${element.localName}.${element.className.baseVal ?? element.className}`);
}
return [...found]
"""


def hexadecimal(color):
    return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", color)[:3])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_has_contrast(driver, theme):
    show(driver, DESKTOP, theme)
    driver.execute_script("document.querySelectorAll('details').forEach((details) => details.open = true)")
    found = [pair.split("|") for pair in driver.execute_script(TEXTS)]
    assert len(found) > 20
    backgrounds = {hexadecimal(background) for _, background, _ in found}
    papers = ("paper", "raised", "alarm-paper", "better-paper", "worse-paper")
    assert backgrounds == {COLORS[role][theme == "dark"] for role in papers}
    too_weak = [pair for pair in found if contrast(*map(hexadecimal, pair[:2])) < 4.5]
    assert too_weak == []


LONG = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest('script, svg')) node.data = node.data.replaceAll('AdamW', 'x'.repeat(40));
}
"""


@pytest.mark.parametrize("width", [NARROWEST, PHONE, DESKTOP])
def test_the_page_is_as_wide_as_the_window(driver, width):
    show(driver, width, "dark")
    widths = "return [...document.querySelectorAll('.panel svg')].map((svg) => svg.clientWidth)"
    if width > NARROWEST:
        assert min(filter(None, driver.execute_script(widths))) > 340  # of 360 units: text of 9 or 10 pixels
    driver.execute_script(LONG)
    assert driver.execute_script("return document.documentElement.scrollWidth") == width


SCROLLS = """
return [...document.querySelectorAll('.scroll')].map((e) => [e.scrollWidth > e.clientWidth, e.tabIndex, e.role])
"""


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_only_tables_that_scroll_are_tab_stops(driver, width):
    show(driver, width, "light")
    driver.execute_script("return new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    found = driver.execute_script(SCROLLS)
    assert {wide for wide, *_ in found} == {True, False}
    assert all(rest == ([0, "region"] if wide else [-1, None]) for wide, *rest in found)


def test_two_studies_have_the_same_page(driver, tmp_path, monkeypatch):
    """Its table is filtered and packed as LaTeX, and a verdict that changed has a frame."""
    plan = study()
    a, b = (analyse(history(plan), Records(finals(plan, Lion=x))) for x in ([0.5] * 3, [0.7, 0.71, 0.72]))
    write_two_studies(two_studies(a, b, ("a", "b")), tmp_path)
    monkeypatch.setattr(driver, "page", f"file://{tmp_path}/compare.html")
    driver.get_log("browser")
    show(driver, PHONE, "light")
    assert driver.execute_script("return document.documentElement.scrollWidth") == PHONE
    framed = "[...document.querySelectorAll('.verdicts td')].map((cell) => getComputedStyle(cell).outlineStyle)"
    assert driver.execute_script(f"return {framed}") == ["none", "none", "solid", "solid"] * 2
    driver.execute_script("find.value = 'Lion'; find.dispatchEvent(new Event('input'))")
    assert driver.execute_script("return document.querySelector('output').value") == "6 rows in 3 tables"
    assert "Lion" in driver.execute_script("return latex(document.getElementById('table-values'))")
    assert driver.get_log("browser") == []


def test_it_is_read_without_script(browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(browser.page)
        seen = "return [...document.querySelectorAll(arguments[0])].map((element) => element.checkVisibility())"
        assert browser.execute_script("return document.querySelectorAll('th button').length") == 0, "no script ran"
        assert not any(browser.execute_script(seen, "aside, figure .tools"))
        assert all(browser.execute_script(seen, "h2, h3, .summary, dd, #table-verdicts td, #table-audit td"))
        assert not any(browser.execute_script(seen, "#table-metrics td, #curves svg, search"))
        browser.get(f"{browser.page}#table-metrics")
        assert all(browser.execute_script(seen, "#table-metrics td"))
        browser.get(f"{browser.page}#figure-learning_curves")
        assert all(browser.execute_script(seen, "#figure-learning_curves .panel > svg"))
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


SMALL = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const small = [];
while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest('.unseen, .skip')) continue;
    const scale = element.ownerSVGElement ? element.ownerSVGElement.getScreenCTM().a : 1;
    const points = parseFloat(getComputedStyle(element).fontSize) * scale * 72 / 96;
    if (points < 6.99) small.push(`${points} ${element.outerHTML.slice(0, 99)}`);
}
return small
"""


def test_it_is_printed_in_light_as_vectors_and_large_enough_to_read(driver):
    show(driver, PAPER, "dark")
    driver.execute_script("document.querySelectorAll('details').forEach((details) => details.open = false)")
    driver.execute_script(LONG)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert hexadecimal(paper) == COLORS["paper"][0]
    assert driver.execute_script("return document.querySelector('#table-metrics td').checkVisibility()")
    assert driver.execute_script(SMALL) == []
    assert driver.execute_script("return document.documentElement.scrollWidth") == PAPER, "nothing is shrunk to fit"
    heads = "return [...document.querySelectorAll('thead')].map((head) => getComputedStyle(head).breakInside)"
    assert set(driver.execute_script(heads)) == {"avoid"}, "Chromium repeats only such heads on each page"
    printed = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    assert b"/Subtype /Image" not in printed
    assert b"/Type /Font" in printed

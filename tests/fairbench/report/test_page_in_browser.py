"""The page in a real Chromium: keyboard, names, markup, colors, sizes, print, without network and without script."""

import base64
import re
from pathlib import Path

import pytest
from chromium import DESKTOP, PHONE, hexadecimal, keys, picture, show, wait_until
from color_vision import contrast
from fabricated import analysed, study
from pages import Page

from fairbench.report.figures.colors import COLORS
from fairbench.report.page import write_document
from fairbench.report.two_studies import two_studies

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

NARROWEST = 320
PAPER = 703  # A4 without its margins of 12 mm

REACHABLE = """
window.reached = new Set();
document.addEventListener('focusin', ({target}) => window.reached.add(target));
window.wanted = [...document.querySelectorAll('a, button, input, select, summary, pre, svg[role=img], [tabindex]')]
    .filter((element) => element.getClientRects().length);
return window.wanted.length
"""
MISSED = "return window.wanted.filter((e) => !window.reached.has(e)).map((e) => e.outerHTML.slice(0, 99))"


def test_the_keyboard_reaches_everything(browser):
    """First a link that skips to the verdicts, in the end the first stop again."""
    wanted = browser.execute_script(REACHABLE)
    assert wanted > 100
    keys(browser, "Tab")
    focus = "const {activeElement: e} = document; return [e.className, e.getBoundingClientRect().height > 24]"
    assert browser.execute_script(focus) == ["skip", True]
    keys(browser, "Enter")
    wait_until(browser, "location.hash === '#verdicts'")
    keys(browser, "Tab")
    assert browser.execute_script("return document.activeElement.closest('section').id") == "verdicts"
    keys(browser, *["Tab"] * (wanted + 20))  # wide tables may become stops meanwhile
    assert browser.execute_script(MISSED) == []


NEVER = (
    "th:not([scope])",
    "[tabindex]:not([tabindex='0'], [tabindex='-1'])",
    "body > :not(main, script, .skip)",
    "figcaption:not(figure > :last-child)",
    "label label",
    ":is(a, button, summary) :is(a, button, input, select)",
    ":is(p, span, small, button, label, summary, h3, a) :is(div, p, table, ul, dl, details, figure)",
    "li:not(ul > *)",
    ":is(dt, dd):not(dl > *)",
    "tr:not(:is(thead, tbody) > *)",
    ":is(th, td):not(tr > *)",
    "summary:not(details > *)",
)
"""Markup without meaning: heads of nothing, an order of its own, blocks in text, controls in controls, parts alone."""
FLAWS = """
const all = (selector) => [...document.querySelectorAll(selector)];
const levels = all('h1, h2, h3, h4').map((heading) => Number(heading.localName[1]));
const skips = levels.filter((level, i) => level > (levels[i - 1] ?? 0) + 1);
const uneven = all('tbody tr').filter((row) => row.cells.length !== row.closest('table').tHead.rows[0].cells.length);
const small = all('label, nav a, summary').filter((element) =>
    element.getClientRects().length && element.getBoundingClientRect().height < 24);
return [skips, ...[uneven, small, ...arguments[0].map(all)].map((found) => found.map((e) => e.outerHTML.slice(0, 99)))]
"""


@pytest.mark.parametrize("page", ["browser", pytest.param("real", marks=pytest.mark.soak)])
def test_its_markup_has_meaning_and_is_valid(request, page):
    """The parser moves or closes what is not valid, so that other elements stand in another order."""
    browser = request.getfixturevalue(page)
    assert browser.execute_script(FLAWS, NEVER) == [[]] * (3 + len(NEVER))
    text = Path(browser.page.removeprefix("file://")).read_text()
    code = "const page = new DOMParser().parseFromString(arguments[0], 'text/html');"
    code += "return [...page.querySelectorAll('*')].map((element) => element.localName.toLowerCase())"
    parsed = browser.execute_script(code, text)
    assert parsed == [name for name, _ in Page(text).elements]


NAMED = (
    "image",
    "table",
    "figure",
    "columnheader",
    "link",
    "button",
    "searchbox",
    "combobox",
    "checkbox",
    "heading",
    "region",
    "navigation",
)


def accessible(browser):
    """The nodes that a screen reader gets, by their ids, each with its text by key, its parent and its liveness."""
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    found = {}
    for node in nodes:
        properties = [each["name"] for each in node.get("properties", [])]
        found[node["nodeId"]] = {
            "role": text_of(node, "role"),
            "name": text_of(node, "name"),
            "description": text_of(node, "description"),
            "parent": node.get("parentId"),
            "live": "live" in properties,
        }
    return found


def text_of(node, key):
    return node.get(key, {}).get("value", "")


def within_live(nodes, node):
    """Whether a node or one around it is live: a screen reader reads it aloud when it changes."""
    while node:
        if node["live"]:
            return True
        node = nodes.get(node["parent"])
    return False


def with_role(nodes, role):
    return [node for node in nodes.values() if node["role"] == role]


def test_a_screen_reader_gets_names_descriptions_and_values(browser):
    browser.execute_script("document.querySelector('#table-comparisons').closest('details').open = true")  # it scrolls
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    nodes = accessible(browser)
    for role in NAMED:
        found = with_role(nodes, role)
        assert found, role
        for node in found:
            assert node["name"], node
            if role in ("image", "table"):
                assert node["description"], node
    titles = {node["name"] for node in with_role(nodes, "columnheader")}
    assert {"Arena", "Severity", "Gain [interval] level"} < titles  # the arrows of sorting are not read
    browser.execute_script("document.querySelector('#figure-lr_sensitivity svg').focus()")
    keys(browser, "ArrowRight")
    nodes = accessible(browser)
    read = []
    for node in with_role(nodes, "StaticText"):
        if within_live(nodes, node):
            read.append(node["name"])
    assert any(text.startswith("PsiLogic, rate 0.0001: ") for text in read)


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
    found.add(`${element.namespaceURI.endsWith('svg') ? style.fill : style.color}|${behind(element)}`);
}
return [...found]
"""


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.soak)])
def test_all_text_has_contrast_and_colors_of_the_system_hide_nothing(driver, theme):
    """In forced colors, by the pixels: a swatch has its arm's color, and each cell of the verdicts a frame."""
    show(driver, DESKTOP, theme)
    backgrounds = set()
    for pair in driver.execute_script(TEXTS):
        color, background = map(hexadecimal, pair.split("|"))
        backgrounds.add(background)
        assert contrast(color, background) >= 4.5, pair
    papers = ("paper", "raised", "alarm-paper", "better-paper", "worse-paper")
    assert backgrounds == {getattr(COLORS[role], theme) for role in papers}
    show(driver, DESKTOP, theme, forced_colors="active")
    cell = picture(driver, ".verdicts td", 0)
    edge = cell.getpixel((cell.width // 2, 0))
    inside = cell.getpixel((cell.width // 2, 3))
    assert edge != inside
    assert {cell.getpixel((x, 0)) for x in range(2, cell.width - 2)} == {edge}
    driver.execute_script("document.querySelector('#figure-learning_curves').scrollIntoView()")
    wait_until(driver, "!document.querySelector('#arms[hidden], #arms.unseen')")  # the switches come with a figure
    colors = "return [...document.querySelectorAll('#arms .swatch path:last-child')].map((x) => x.getAttribute('fill'))"
    arms = driver.execute_script(colors)
    assert len(set(arms)) > 2
    in_theme = {color.light: getattr(color, theme) for color in COLORS.values()}
    for i, color in enumerate(arms):
        image = picture(driver, "#arms .swatch", i)
        pixels = image.getcolors(image.width * image.height)
        drawn = {hexadecimal(str(pixel)) for _, pixel in pixels}
        assert in_theme[color] in drawn


LONG = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest('script, svg')) node.data = node.data.replaceAll('AdamW', 'x'.repeat(40));
}
return document.documentElement.scrollWidth
"""
HEADS = """
const range = document.createRange(), close = [];
for (const row of document.querySelectorAll('thead tr')) {
    const edges = [...row.cells].map((head) => {
        range.selectNodeContents(head);
        const text = range.getBoundingClientRect(), button = head.firstElementChild?.getBoundingClientRect() ?? text;
        return [Math.min(text.left, button.left), Math.max(text.right, button.right), head.textContent];
    });
    edges.slice(1).forEach(([left, , name], i) => {
        if (left - edges[i][1] < 12) close.push(`${edges[i][2]} | ${name}: ${left - edges[i][1]}`);
    });
}
return close
"""
SCROLLS = """
return [...document.querySelectorAll('.scroll')].map((e) => [
    e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight, e.tabIndex, e.role])
"""


@pytest.mark.parametrize("width", [NARROWEST, pytest.param(PHONE, marks=pytest.mark.soak), DESKTOP])
def test_it_fits_the_window(driver, width):
    """Also words that never end. Only tables that scroll are tab stops, and heads of columns do not run together."""
    show(driver, width, "dark")
    assert driver.execute_script("return document.documentElement.scrollWidth") == width
    widths = "return [...document.querySelectorAll('.panel svg')].map((svg) => svg.clientWidth)"
    assert min(driver.execute_script(widths)) > (270 if width == NARROWEST else 340)  # 340: text of 9 or 10 pixels
    assert driver.execute_script(HEADS) == []
    driver.execute_script("return new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    found = driver.execute_script(SCROLLS)
    assert {wide for wide, _, _ in found} == {True, False}
    for wide, tab_index, role in found:
        expected = (0, "region") if wide else (-1, None)
        assert (tab_index, role) == expected
    assert driver.execute_script(LONG) == width


START = """
const grid = document.querySelector('.verdicts tbody'), [first] = grid.rows;
for (let i = 0; i < 40; i++) grid.append(first.cloneNode(true));
const scroller = document.querySelector('#table-verdicts .scroll'), top = (e) => e.getBoundingClientRect().top;
const above = ['.verdicts tbody td', '.start svg'].map((name) => innerHeight - top(document.querySelector(name)));
scroller.scrollTop = 500;
return [...above, top(scroller.querySelector('th')) - top(scroller), document.querySelector('#curves').offsetTop]
"""


@pytest.mark.parametrize(("width", "height"), [(PHONE, 844), (DESKTOP, 800)])
def test_the_first_screen_shows_verdicts_and_a_picture(real, width, height):
    """With 40 more baselines: the grid has its own scroll bar, its head stays visible, and the next section is near."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width == PHONE}
    real.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    grid, figure, stays, end = real.execute_script(START)
    assert grid > (50 if width == PHONE else 250)
    assert figure > 250 or width == PHONE
    assert stays == pytest.approx(0, abs=4)
    assert end < 3.6 * height


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


@pytest.mark.soak
def test_it_is_printed_in_light_as_vectors_and_large_enough_to_read(real):
    show(real, PAPER, "dark")
    real.execute_script("document.querySelectorAll('details').forEach((details) => details.open = false)")
    real.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    paper = real.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert hexadecimal(paper) == COLORS["paper"].light
    assert real.execute_script("return document.querySelector('#table-metrics td').checkVisibility()")
    assert real.execute_script(SMALL) == []
    assert real.execute_script("return document.documentElement.scrollWidth") == PAPER, "nothing is shrunk to fit"
    style = "return [...document.querySelectorAll(arguments[0])].map((head) => getComputedStyle(head)[arguments[1]])"
    assert set(real.execute_script(style, "thead", "breakInside")) == {"avoid"}, "Chromium repeats only such heads"
    assert set(real.execute_script(style, "th button", "display")) == {"contents"}, "nor heads with buttons"
    printed = base64.b64decode(real.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    assert b"/Subtype /Image" not in printed
    assert b"/Type /Font" in printed


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
    a = analysed(plan, Lion=[0.5, 0.5, 0.5])
    b = analysed(plan, Lion=[0.7, 0.71, 0.72])
    write_document(two_studies(a, b, ("a", "b")), tmp_path)
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
        assert all(
            real.execute_script(
                seen, "h2, .summary, dd, #table-verdicts td, #table-audit td, #figure-learning_curves svg"
            )
        )
        assert not any(real.execute_script(seen, "#table-metrics td, #figure-training_loss svg, search"))
        real.get(f"{real.page}#table-metrics")
        assert all(real.execute_script(seen, "#table-metrics td"))
        real.get(f"{real.page}#figure-learning_curves")
        assert all(real.execute_script(seen, "#figure-learning_curves .panel > svg"))
    finally:
        real.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

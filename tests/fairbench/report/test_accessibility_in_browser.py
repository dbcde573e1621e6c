"""The page in a real Chromium: keyboard, names, markup, contrast, forced colors."""

import pytest
from chromium import DESKTOP, PHONE, hexadecimal, keys, picture, show, wait_until
from pages import Page, contrast

from fairbench.report.figures.colors import COLORS

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

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
    keys(browser, *["Tab"] * (wanted + 20))  # after the last one the first; wide tables may become stops meanwhile
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
    "captions that are none": """
        return [...document.querySelectorAll('figcaption')]
            .filter((e) => e.parentElement.localName !== 'figure' || e.nextElementSibling).map((e) => e.outerHTML)
    """,
    "blocks within text": """
        return ['p', 'span', 'small', 'button', 'label', 'summary', 'h3', 'a', 'th button']
            .flatMap((name) => [...document.querySelectorAll(`${name} :is(div, p, table, ul, dl, details, figure)`)])
            .map((e) => e.outerHTML.slice(0, 99))
    """,
    "controls within controls": """
        return [...document.querySelectorAll(':is(a, button, summary) :is(a, button, input, select), label label')]
            .map((e) => e.outerHTML)
    """,
    "parts without their whole": """
        const wholes = {li: 'ul', dt: 'dl', dd: 'dl', tr: 'thead, tbody', th: 'tr', td: 'tr', summary: 'details'};
        return Object.entries(wholes).flatMap(([part, whole]) =>
            [...document.querySelectorAll(part)].filter((e) => !e.parentElement.matches(whole)).map((e) => e.outerHTML))
    """,
    "rows of another length": """
        return [...document.querySelectorAll('tbody tr')].filter((row) =>
            row.cells.length !== row.closest('table').tHead.rows[0].cells.length).map((row) => row.textContent)
    """,
    "too small to press": """
        return [...document.querySelectorAll('label, nav a, summary')].filter((element) =>
            element.getClientRects().length && element.getBoundingClientRect().height < 24).map((e) => e.outerHTML)
    """,
}


HAVE = {
    "image": ("name", "description"),
    "table": ("name", "description"),
    "figure": ("name",),
    "columnheader": ("name",),
}


def accessible(browser):
    """The nodes that a screen reader gets, by their ids, each with its text by key, its parent and its liveness."""
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    texts = ("role", "name", "description")
    return {
        x["nodeId"]: {key: x.get(key, {}).get("value", "") for key in texts}
        | {"parent": x.get("parentId"), "live": any(y["name"] == "live" for y in x.get("properties", []))}
        for x in nodes
    }


def within_live(nodes, node):
    return bool(node) and (node["live"] or within_live(nodes, nodes.get(node["parent"])))


def test_a_screen_reader_gets_names_descriptions_and_values(real):
    nodes = accessible(real)
    for role, needed in HAVE.items():
        found = [x for x in nodes.values() if x["role"] == role]
        assert len(found) > 5
        assert [x["name"] for x in found if not all(x[key] for key in needed)] == []
    titles = {x["name"] for x in nodes.values() if x["role"] == "columnheader"}
    assert {"Arena", "Severity", "Advantage [95% CI]"} < titles  # the arrows of sorting are not read
    real.execute_script("document.querySelector('#figure-lr_sensitivity svg').focus()")
    keys(real, "ArrowRight")
    nodes = accessible(real)
    read = [x["name"] for x in nodes.values() if x["role"] == "StaticText" and within_live(nodes, x)]
    assert read[-1].startswith("AdamW, rate 0.001: ")


@pytest.mark.parametrize("page", ["browser", pytest.param("real", marks=pytest.mark.soak)])
def test_everyone_can_use_it(request, page):
    """The page of a study that ran, and the one with every section."""
    browser = request.getfixturevalue(page)
    assert {flaw: found for flaw in FLAWS if (found := browser.execute_script(FLAWS[flaw]))} == {}


def test_the_parser_of_the_browser_repairs_nothing(real, small_study):
    """What is not valid is moved or closed by it, so that other elements stand in another order."""
    text = (small_study / "report.html").read_text()
    parsed = real.execute_script(
        "const page = new DOMParser().parseFromString(arguments[0], 'text/html');"
        "return [...page.querySelectorAll('*')].map((element) => element.localName.toLowerCase())",
        text,
    )
    assert parsed == [name for name, _ in Page(text).elements]


def test_a_link_skips_to_the_verdicts(real):
    focus = "const {activeElement: e} = document; return [e.className, e.getBoundingClientRect().height > 24]"
    keys(real, "Tab")
    assert real.execute_script(focus) == ["skip", True]
    keys(real, "Enter")
    wait_until(real, "location.hash === '#verdicts'")
    keys(real, "Tab")
    assert real.execute_script("return document.activeElement.closest('section').id") == "verdicts"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colors_of_the_system_hide_neither_swatches_nor_verdicts(real, theme):
    """In forced colors, by the pixels: a swatch has its arm's color, and each cell of the verdicts a frame."""
    show(real, DESKTOP, theme, forced_colors="active")
    assert real.execute_script("return matchMedia('(forced-colors: active)').matches")
    cell = picture(real, ".verdicts td", 0)
    edge, inside = cell.getpixel((cell.width // 2, 0)), cell.getpixel((cell.width // 2, 3))
    assert edge != inside
    assert {cell.getpixel((x, 0)) for x in range(2, cell.width - 2)} == {edge}
    real.execute_script("document.querySelector('#figure-learning_curves').scrollIntoView()")
    wait_until(real, "!document.querySelector('#arms[hidden], #arms.unseen')")  # the switches come with a figure
    colors = "return [...document.querySelectorAll('#arms .swatch path:last-child')].map((x) => x.getAttribute('fill'))"
    arms = real.execute_script(colors)
    swatches = [picture(real, "#arms .swatch", i) for i in range(len(arms))]
    assert len(set(arms)) > 2
    for color, image in zip(arms, swatches, strict=True):
        wanted = next(pair[theme == "dark"] for pair in COLORS.values() if pair[0] == color)
        drawn = {pixel for _, pixel in image.getcolors(image.width * image.height)}
        assert tuple(int(wanted[i : i + 2], 16) for i in (1, 3, 5)) in drawn


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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_has_contrast(driver, theme):
    show(driver, DESKTOP, theme)
    found = [pair.split("|") for pair in driver.execute_script(TEXTS)]
    assert len(found) > 20
    backgrounds = {hexadecimal(background) for _, background, _ in found}
    papers = ("paper", "raised", "alarm-paper", "better-paper", "worse-paper")
    assert backgrounds == {COLORS[role][theme == "dark"] for role in papers}
    too_weak = [pair for pair in found if contrast(*map(hexadecimal, pair[:2])) < 4.5]
    assert too_weak == []


SCROLLS = """
return [...document.querySelectorAll('.scroll')].map((e) => [
    e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight, e.tabIndex, e.role])
"""


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_only_tables_that_scroll_are_tab_stops(driver, width):
    show(driver, width, "light")
    driver.execute_script("return new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    found = driver.execute_script(SCROLLS)
    assert {wide for wide, *_ in found} == {True, False}
    assert all(rest == ([0, "region"] if wide else [-1, None]) for wide, *rest in found)

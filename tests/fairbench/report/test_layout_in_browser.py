"""How wide, how small and how close the page's parts are, in a real Chromium and in print."""

import base64

import pytest
from chromium import DESKTOP, PHONE, hexadecimal, show, wait_until
from small_study import LONG_NAME

from fairbench.report.figures.colors import COLORS

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

NARROWEST = 320
PAPER = 703  # A4 without its margins of 12 mm

LONG = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest('script, svg')) node.data = node.data.replaceAll('AdamW', 'x'.repeat(40));
}
"""


@pytest.mark.parametrize("width", [NARROWEST, PHONE, DESKTOP])
def test_the_page_is_as_wide_as_the_window(real, width):
    """With an optimizer's name of 40 characters."""
    show(real, width, "dark")
    assert LONG_NAME in real.execute_script("return document.querySelector('#table-verdicts').textContent")
    widths = "return [...document.querySelectorAll('.panel svg')].map((svg) => svg.clientWidth)"
    if width > NARROWEST:
        assert min(filter(None, real.execute_script(widths))) > 340  # of 360 units: text of 9 or 10 pixels
    assert real.execute_script("return document.documentElement.scrollWidth") == width


MANY = """
const grid = document.querySelector('.verdicts tbody'), [first] = grid.rows;
for (let i = 0; i < 40; i++) grid.append(first.cloneNode(true));
"""
START = """
const seen = (selector) => innerHeight - document.querySelector(selector).getBoundingClientRect().top;
const scroller = document.querySelector('#table-verdicts .scroll'), head = scroller.querySelector('th');
scroller.scrollTop = 500;
const stays = head.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
const end = document.querySelector('#audit').offsetTop;
return [seen('.verdicts tbody td'), seen('.start svg'), stays, scroller.tabIndex, end]
"""


@pytest.mark.parametrize(("width", "height"), [(PHONE, 844), (DESKTOP, 800)])
def test_the_first_screen_shows_verdicts_and_a_picture(real, width, height):
    """With 40 more baselines: the grid has its own scroll bar, its head stays visible, and the next section is near."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width == PHONE}
    real.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    real.execute_script(MANY)
    wait_until(real, "document.querySelector('#table-verdicts .scroll').tabIndex === 0")
    grid, picture, stays, stop, end = real.execute_script(START)
    assert grid > (60 if width == PHONE else 250)
    assert picture > 250 or width == PHONE
    assert stays == pytest.approx(0, abs=4)
    assert stop == 0
    assert end < 3 * height


def test_words_that_never_end_are_broken_in_every_section(driver):
    show(driver, NARROWEST, "dark")
    driver.execute_script(LONG)
    assert driver.execute_script("return document.documentElement.scrollWidth") == NARROWEST


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


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_heads_of_columns_do_not_run_together(real, width):
    show(real, width, "light")
    assert real.execute_script("return document.querySelectorAll('thead th button').length") > 60
    assert real.execute_script(HEADS) == []


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


def test_it_is_printed_in_light_as_vectors_and_large_enough_to_read(real):
    show(real, PAPER, "dark")
    real.execute_script("document.querySelectorAll('details').forEach((details) => details.open = false)")
    real.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    paper = real.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert hexadecimal(paper) == COLORS["paper"][0]
    assert real.execute_script("return document.querySelector('#table-metrics td').checkVisibility()")
    assert real.execute_script(SMALL) == []
    assert real.execute_script("return document.documentElement.scrollWidth") == PAPER, "nothing is shrunk to fit"
    heads = "return [...document.querySelectorAll('thead')].map((head) => getComputedStyle(head).breakInside)"
    assert set(real.execute_script(heads)) == {"avoid"}, "Chromium repeats only such heads on each page"
    buttons = "return [...document.querySelectorAll('th button')].map((button) => getComputedStyle(button).display)"
    assert set(real.execute_script(buttons)) == {"contents"}, "nor does it repeat heads with buttons"
    printed = base64.b64decode(real.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    assert b"/Subtype /Image" not in printed
    assert b"/Type /Font" in printed

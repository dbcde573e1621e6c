"""A part of a panel in a real Chromium: by a drag, in every figure, kept by a link, and the whole again."""

import pytest
from chromium import keys
from panels import AT, CENTER, LIMITS, PANEL, mouse, seen

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

ROWS = f"""{PANEL}
const seen = (element) => element.getClientRects().length > 0;
const numbers = (path) => Array.from(path.getAttribute('d').matchAll(/[-\\d.]+/g), Number);
const ticks = [...svg.querySelectorAll('[data-axis=x] .tick text')].filter(seen);
return {{
    ticks: ticks.map((text) => [Number(text.textContent.replace('−', '-')), Number(text.getAttribute('x'))]),
    bars: [...svg.querySelectorAll('[data-arm] path')].map(numbers),
    names: [...svg.querySelectorAll('[data-arm] text')].filter(seen).map((text) => Number(text.getAttribute('y'))),
}}
"""


def test_a_drag_shows_a_part_of_rows(browser):
    """Each end of a bar against the ticks; a row's name is at its middle, and the names of other rows are gone."""
    whole = seen(browser, "step_time")
    x, y, *_ = next(
        point for point in browser.execute_script(AT, "step_time") if point[2:] == [1, "AdamW, step: 4.00 ms"]
    )
    mouse(browser, ("Pressed", x - 80, y - 12), ("Moved", x + 60, y + 12), ("Released", x + 60, y + 12))
    assert seen(browser, "step_time")["labels"] == ["10.0 ms", "AdamW"]
    rows = browser.execute_script(ROWS, "step_time")
    (low, left), *_, (high, right) = rows["ticks"]
    assert [left + (right - left) * (ms - low) / (high - low) for ms in (0, 1, 1, 3, 3, 6, 6, 10)] == pytest.approx(
        [bar[i] for bar in rows["bars"][:4] for i in (0, 2)], abs=0.1
    )
    middle = (rows["bars"][0][1] + rows["bars"][0][5]) / 2
    assert rows["names"] == pytest.approx([middle] * 2, abs=5)
    browser.execute_script("document.querySelector('#figure-step_time svg').focus()")
    keys(browser, "0")
    assert seen(browser, "step_time") == whole


PART = f"""{CENTER}
const {{x, y}} = drawing(panel).now, between = ({{start, end}}, share) => start + (end - start) * share;
const corners = [[0.2, 0.8], [0.8, 0.2]].map(([along, up]) => [between(x, along), between(y, up)]);
return {{
    corners: corners.map((at) => new DOMPoint(...at).matrixTransform(svg.getScreenCTM())).map((at) => [at.x, at.y]),
    values: [x.value(corners[0][0]), x.value(corners[1][0]), y.value(corners[1][1]), y.value(corners[0][1])],
}}
"""
WHOLE = f"""{PANEL}
const button = [...panel.closest('figure').querySelectorAll('.tools button')].at(-1);
button.click();
return button.textContent
"""
FIGURES = "return [...document.querySelectorAll('figure')].map((figure) => figure.id.slice('figure-'.length))"


@pytest.mark.parametrize("page", ["browser", pytest.param("real", marks=pytest.mark.soak)])
def test_every_figure_is_zoomed_and_shown_whole_again(request, page):
    browser = request.getfixturevalue(page)
    names = browser.execute_script(FIGURES)
    assert {"leaderboard", "lr_sensitivity", "step_time"} < {*names}
    for name in names:
        whole, part = browser.execute_script(LIMITS, name), browser.execute_script(PART, name)
        start, end = part["corners"]
        mouse(browser, ("Pressed", *start), ("Moved", *end), ("Released", *end))
        shown = browser.execute_script(LIMITS, name)
        for axis in (slice(2), slice(2, 4)):
            size = abs(whole[axis][1] - whole[axis][0])
            assert shown[axis] == pytest.approx(part["values"][axis], abs=0.01 * size), name
        assert browser.execute_script(WHOLE, name) == "Whole axes"
        assert browser.execute_script(LIMITS, name) == whole


def test_a_drag_shows_a_part_and_the_link_keeps_it(browser):
    seen(browser, "lr_sensitivity")
    whole = browser.execute_script(LIMITS, "lr_sensitivity")
    (x, y, *_), (right, below, *_) = browser.execute_script(AT, "lr_sensitivity")[:2]
    mouse(browser, ("Pressed", x - 5, y - 20), ("Moved", right + 5, below + 20), ("Released", right + 5, below + 20))
    part = browser.execute_script(LIMITS, "lr_sensitivity")
    assert whole[0] < part[0] < 1e-4 < 1e-3 < part[1] < whole[1]
    address = browser.execute_script("return location.hash")
    browser.get("about:blank")
    browser.get(f"{browser.page}{address.replace('#', '#figure-lr_sensitivity')}")
    seen(browser, "lr_sensitivity")
    assert browser.execute_script(LIMITS, "lr_sensitivity") == pytest.approx(part, rel=1e-4)
    browser.execute_script("document.querySelector('#figure-lr_sensitivity svg').focus()")
    keys(browser, "0")
    assert browser.execute_script(LIMITS, "lr_sensitivity") == whole
    assert browser.execute_script("return location.hash") == "#figure-lr_sensitivity"

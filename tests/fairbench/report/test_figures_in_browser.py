"""Figures in a real Chromium: arms, values at the pointer and by the keyboard, a part of a panel, the CSV."""

import pytest
from chromium import keys, mouse
from csv_columns import column, rows_of
from small_study import LONG_NAME

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

SWITCH = "document.querySelector(`#arms [data-switch='${arguments[0]}'] input`).click()"
FIGURES = "return [...document.querySelectorAll('figure')].map((figure) => figure.id.slice('figure-'.length))"
DRAWN = """
const shown = [...document.querySelectorAll(`figure [data-arm]`)].filter((element) => element.getClientRects().length);
return [...new Set(shown.map((element) => element.dataset.arm))].sort()
"""
PANEL = """
const panel = document.querySelector(`#figure-${arguments[0]} .panel`), svg = panel.querySelector('svg');
"""
TIP = f"{PANEL} return [...panel.querySelector('.tip').children].map((line) => line.textContent)"
PLACES = f"""{PANEL}
svg.scrollIntoView({{block: 'center'}});
const {{x, y, width, height}} = svg.getBoundingClientRect();
const values = visible({{...dataOf(panel), svg}}).map(({{left, top, arm, text}}) => [x + left, y + top, arm, text]);
const marks = [...svg.querySelectorAll('[data-arm] use')].map((mark) => mark.getBoundingClientRect());
return {{values, box: [x, y, width, height], part: svg.getAttribute('viewBox'), best: dataOf(panel).best,
    marks: marks.map((mark) => [mark.x + mark.width / 2, mark.y + mark.height / 2, mark.width])}}
"""


def drag(browser, start, end):
    mouse(browser, ("Pressed", *start), ("Moved", *end), ("Released", *end))


def test_hidden_arms_leave_every_figure(real):
    """By their switch, or all that no pattern names; the address keeps it, and the CSV of a figure lacks them."""
    opacity = f"{PANEL} return [0, 1].map((i) => getComputedStyle(svg.querySelector(`[data-arm='${{i}}']`)).opacity)"
    assert real.execute_script(DRAWN) == ["0", "1", "2", "3"]
    real.execute_script("document.querySelector(`#arms [data-switch='1'] input`).focus()")
    assert real.execute_script(opacity, "learning_curves") == ["0.15", "1"], "the arm that is pointed at stands out"
    real.execute_script("document.activeElement.blur()")
    assert real.execute_script(opacity, "learning_curves") == ["1", "1"]
    real.execute_script(SWITCH, 0)
    assert real.execute_script(DRAWN) == ["1", "2", "3"]
    real.execute_script(SWITCH, 0)
    search = "const field = document.querySelector('#arms input[type=search]'); field.value = 'psi';"
    real.execute_script(f"{search} field.dispatchEvent(new Event('input'))")
    real.execute_script("document.querySelector('#arms button[value=only]').click()")
    assert real.execute_script(DRAWN) == ["1"]
    values = real.execute_script(PLACES, "learning_curves")["values"]
    assert {arm for _, _, arm, _ in values} == {1}
    assert set(column(values_csv(real, "learning_curves"), "optimizer")) == {"PsiLogic"}
    assert real.execute_script("return document.querySelector('#arms output').textContent") == "1 of 4 shown"
    assert real.execute_script("return location.hash").startswith("#?off=0%2C2%2C3")


def values_csv(browser, name):
    text = browser.execute_script("return valuesCsv(document.getElementById(`figure-${arguments[0]}`))", name)
    return rows_of(text)


def test_a_csv_of_a_figure_names_its_columns(browser):
    """Curves have both axes, intervals their ends, phases their milliseconds, lost trials no value."""
    curves = values_csv(browser, "learning_curves")
    assert ("gpt", "AdamW", "5") in {(row["panel"], row["optimizer"], row["training step"]) for row in curves}
    assert set(column(curves, "validation accuracy (higher is better)")) > {"", "0.5075"}
    gain = values_csv(browser, "leaderboard")[0]
    middle = float(gain["gain of PsiLogic over each, in margins (right is better)"])
    assert float(gain["low"]) < middle < float(gain["high"])
    phase = values_csv(browser, "step_time")[3]
    assert phase["phase"] == "step"
    assert float(phase["milliseconds per training step"]) == pytest.approx(4)
    rates = values_csv(browser, "lr_sensitivity")
    (lost,) = [row for row in rates if row["text"] == "AdamW, rate 0.01: diverged"]
    assert [value for name, value in lost.items() if name.startswith("validation")] == ["", ""]


def test_the_pointer_tells_the_values_of_all_arms(real):
    """The best first; they stay after a tap. A rate that diverged has its value at its cross."""
    points = real.execute_script(PLACES, "learning_curves")["values"]
    x, y, *_ = points[1]
    mouse(real, ("Moved", x + 3, y - 2))
    told = real.execute_script(TIP, "learning_curves")
    at_the_step = [point for point in points if abs(point[0] - x) < 1]
    at_the_step.sort(key=lambda point: point[1])
    assert told == [text for *_, text in at_the_step]  # higher is better
    assert len(told) == 3
    mouse(real, ("Pressed", x, y), ("Released", x, y), ("Moved", x + 200, y))
    assert real.execute_script(TIP, "learning_curves") == told
    mouse(real, ("Pressed", 5, 5), ("Released", 5, 5))
    assert real.execute_script(TIP, "learning_curves") == []


def test_the_pointer_tells_the_time_of_a_phase_at_its_bar(browser):
    bars = browser.execute_script(PLACES, "step_time")["values"]
    x, y, _, text = bars[2]
    mouse(browser, ("Moved", x, y + 4))
    assert browser.execute_script(TIP, "step_time") == [text]


def test_values_are_walked_through_by_the_arrow_keys(real):
    real.execute_script("document.querySelector('#figure-learning_curves svg').focus()")
    said = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowLeft", "Escape"):
        keys(real, key)
        for text in real.execute_script(TIP, "learning_curves"):
            said.append(text.partition(":")[0])
    first = "AdamW, step 4"
    second = "AdamW, step 8"
    assert said == [first, second, "PsiLogic, step 4", first, f"{LONG_NAME}, step 8"]  # at last the last of all


@pytest.mark.parametrize("page", ["browser", pytest.param("real", marks=pytest.mark.soak)])
def test_every_panel_shows_a_part_of_itself_and_the_whole_again(request, page):
    """A drag stretches its corners to those of the panel; marks keep their size, and stand at the values."""
    browser = request.getfixturevalue(page)
    names = browser.execute_script(FIGURES)
    assert {"leaderboard", "lr_sensitivity"} < {*names}
    for name in names:
        whole = browser.execute_script(PLACES, name)
        x, y, width, height = whole["box"]
        drag(browser, (x + 0.9 * width, y + 0.7 * height), (x + 0.1 * width, y + 0.2 * height))
        part = browser.execute_script(PLACES, name)
        assert part["box"] == pytest.approx(whole["box"], abs=0.5), "the panel keeps its size"
        inside = []
        for value in whole["values"]:
            at_x, at_y = stretched(value, whole["box"])
            if 0 <= at_x - x <= width and 0 <= at_y - y <= height:
                inside += [at_x, at_y]
        shown = []
        for value in part["values"]:
            shown += value[:2]
        assert inside == pytest.approx(shown, abs=1.5)
        for before, after in zip(whole["marks"], part["marks"], strict=True):
            size = before[2]
            assert after == pytest.approx((*stretched(before, whole["box"]), size), abs=1.5), name
        browser.execute_script(f"{PANEL} panel.querySelector('.whole').click()", name)
        assert browser.execute_script(PLACES, name) == whole


def stretched(place, box):
    """Where a place of the whole panel is after the drag."""
    x, y, width, height = box
    at_x = x + (place[0] - x - 0.1 * width) / 0.8
    at_y = y + (place[1] - y - 0.2 * height) / 0.5
    return at_x, at_y


def test_a_link_keeps_a_part_and_keys_change_it(browser):
    """The value that is shown keeps its position."""
    name = "lr_sensitivity"
    whole = browser.execute_script(PLACES, name)
    (x, y, *_), (right, below, *_) = whole["values"][:2]
    drag(browser, (x - 5, y - 20), (right + 5, below + 20))
    part = browser.execute_script(PLACES, name)["part"]
    address = browser.execute_script("return location.hash")
    browser.get("about:blank")
    browser.get(f"{browser.page}{address.replace('#', f'#figure-{name}')}")
    assert browser.execute_script(PLACES, name)["part"] == part != whole["part"]
    browser.execute_script(f"document.querySelector('#figure-{name} svg').focus()")
    keys(browser, "0", "ArrowRight", "+")
    assert browser.execute_script("return location.hash").startswith(f"#figure-{name}?{name}-0.part=")
    first = browser.execute_script(PLACES, name)["values"][0]
    assert browser.execute_script(TIP, name) == [first[3]] == [whole["values"][0][3]]
    ring = browser.execute_script(f"{PANEL} return panel.querySelector('.rings i').getBoundingClientRect()", name)
    assert [ring["x"] + 6, ring["y"] + 6] == pytest.approx(first[:2], abs=1)
    keys(browser, "-")
    assert browser.execute_script(PLACES, name)["part"] == whole["part"]
    assert browser.execute_script("return location.hash") == f"#figure-{name}"

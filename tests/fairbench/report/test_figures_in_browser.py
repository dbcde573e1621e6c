"""Figures in a real Chromium: arms, axes, values at the pointer, downloads, a strict policy."""

import csv
import io
import json
import math
import time
from xml.etree import ElementTree

import pytest
from chromium import DESKTOP, keys, show
from panels import AT, PANEL, mouse, seen
from PIL import Image
from small_study import LONG_NAME

from fairbench.report.figures.colors import COLORS

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.slow]

SWITCH = "document.querySelector(`#arms [data-switch='${arguments[0]}'] input`).click()"
TOOL = """
[...document.querySelectorAll(`#figure-${arguments[0]} .tools label`)].find((x) => x.textContent === arguments[1])
    .querySelector('input').click()
"""


TIP = f"{PANEL} const tip = panel.querySelector('.tip'); return [...tip.children].map((line) => line.textContent)"


def test_hidden_arms_leave_every_figure_and_free_their_space(real):
    before = seen(real)
    real.execute_script(SWITCH, 0)
    after = seen(real)
    assert sorted(before["marks"]) == ["0", "1", "2"]  # every seed of Explodes diverged
    assert sorted(after["marks"]) == ["1", "2"]
    assert "PsiLogic" not in after["labels"]
    assert after["y"] != before["y"]
    for name in ("lr_sensitivity", "step_time"):
        assert "0" not in seen(real, name)["marks"]
        assert "PsiLogic" not in seen(real, name)["labels"]
    real.execute_script(SWITCH, 0)
    assert seen(real) == before


def test_arms_are_chosen_by_a_pattern(real):
    search = "const field = document.querySelector('#arms input[type=search]'); field.value = arguments[0];"
    real.execute_script(f"{search} field.dispatchEvent(new Event('input'))", "psi")
    real.execute_script("document.querySelector('#arms button[value=only]').click()")
    assert sorted(seen(real)["marks"]) == ["0"]
    assert real.execute_script("return location.hash").startswith("#?off=1%2C2%2C3")
    assert real.execute_script("return document.querySelector('#arms output').textContent") == "1 of 4 shown"


def test_an_arm_that_is_pointed_at_stands_out(real):
    opacity = (
        f"{PANEL} return [0, 1].map((arm) => getComputedStyle(svg.querySelector(`[data-arm='${{arm}}']`)).opacity)"
    )
    seen(real)
    real.execute_script("document.querySelector(`#arms [data-switch='1'] input`).focus()")
    assert real.execute_script(opacity, "learning_curves") == ["0.15", "1"]
    real.execute_script("document.activeElement.blur()")
    assert real.execute_script(opacity, "learning_curves") == ["1", "1"]


def proportional(values, positions):
    """Whether positions lie on one line over values."""
    (a, b), (p, q) = (values[0], values[-1]), (positions[0], positions[-1])
    return all(
        y == pytest.approx(p + (q - p) * (x - a) / (b - a), abs=0.05) for x, y in zip(values, positions, strict=True)
    )


def test_axes_are_logarithmic_or_in_seconds(browser):
    """Positions of markers against those of the true values."""
    data = seen(browser)["data"]
    browser.execute_script(TOOL, "learning_curves", "log y")
    points = [point for point in data["points"] if point[2] == 1]
    drawn = seen(browser)
    assert proportional(
        [math.log(y) for _, y, *_ in data["points"]], [y for arm in "013" for _, y in drawn["marks"][arm]]
    )
    browser.execute_script(TOOL, "learning_curves", "log x")
    assert proportional([math.log(x) for x, *_ in points], [x for x, _ in seen(browser)["marks"]["1"]])
    browser.execute_script(TOOL, "learning_curves", "log x")
    browser.execute_script(f"{PANEL} drawing(panel).data.seconds[3] = 0.03;", "learning_curves")  # the others: 0.01
    browser.execute_script(TOOL, "learning_curves", "x in seconds of training")
    drawn = seen(browser)
    seconds = [x * (0.03 if arm == 3 else 0.01) for x, _, arm, _ in data["points"]]
    assert "training time, seconds" in drawn["x"]
    x, y, *_ = browser.execute_script(AT, "learning_curves")[0]
    mouse(browser, ("Moved", x, y))
    assert (
        browser.execute_script(TIP, "learning_curves")[0]
        == "AdamW, 0.05 s: 0.5075\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.0096"
    )
    assert proportional(seconds, [x for arm in "013" for x, _ in drawn["marks"][arm]])


def test_single_seeds_are_drawn_on_demand(real, small_study):
    lines = f"{PANEL} return [...svg.querySelectorAll('g.again[clip-path] path')].map((path) => path.getAttribute('d'))"
    data = seen(real, "training_loss")["data"]
    assert real.execute_script(lines, "training_loss") == []
    real.execute_script(TOOL, "training_loss", "single seeds")
    found = real.execute_script(lines, "training_loss")
    records = [json.loads(path.read_text()) for path in (small_study / "trials").glob("*.json")]
    finals = [x for x in records if (x["spec"]["stage"], x["spec"]["arena"]["name"]) == ("final", "vit")]
    recorded = sorted(point for x in finals for point in x["result"]["loss_curve"])
    seeds = [curve for of_arm in data["seeds"].values() for curve in of_arm]
    drawn = sorted([*point] for curve in seeds for point in zip(*curve, strict=True))
    assert drawn == [[step, pytest.approx(loss, rel=1e-3)] for step, loss in recorded]
    assert len(found) == len(finals) == 8
    assert len({*found}) == len({str(curve) for curve in seeds})
    assert real.execute_script("return location.hash") == "#?training_loss.seeds=shown"


def test_the_pointer_tells_the_values_of_all_arms(real):
    seen(real, "learning_curves")
    points = real.execute_script(AT, "learning_curves")
    x, y, _, said = points[1]
    mouse(real, ("Moved", x + 3, y - 2))
    told = real.execute_script(TIP, "learning_curves")
    same = [point for point in points if abs(point[0] - x) < 1]
    assert told == [point[3] for point in sorted(same, key=lambda point: point[1])]  # higher is better
    assert said in told
    assert len(told) == 3
    mouse(real, ("Pressed", x, y), ("Released", x, y), ("Moved", x + 200, y))
    assert real.execute_script(TIP, "learning_curves") == told  # it stays after a tap
    real.execute_script("document.body.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))")
    hidden = f"{PANEL} return panel.querySelector('.tip').childElementCount === 0"
    assert real.execute_script(hidden, "learning_curves")


def test_the_pointer_tells_which_rates_diverged(browser):
    told = browser.execute_script(
        f"""{PANEL} const it = drawing(panel), cross = svg.querySelector("[data-arm='1'][data-kind='edge'] use");
        svg.scrollIntoView({{block: 'center'}});
        const at = ['x', 'y'].map((name) => Number(cross.getAttribute(name)));
        return valuesAt(it, at).map(({{text, at: [x, y]}}) => [text, x - at[0], y - at[1]]).at(-1)""",
        "lr_sensitivity",
    )
    assert told == ["AdamW, rate 0.01: diverged", pytest.approx(0, abs=0.1), pytest.approx(0, abs=0.1)]


def test_values_are_walked_through_by_the_arrow_keys(real):
    real.execute_script(SWITCH, 1)
    seen(real, "learning_curves")
    real.execute_script("document.querySelector('#figure-learning_curves svg').focus()")
    said = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowLeft", "Escape"):
        keys(real, key)
        hidden = real.execute_script(
            f"{PANEL} return panel.querySelector('.tip').childElementCount === 0", "learning_curves"
        )
        said.append("" if hidden else real.execute_script(TIP, "learning_curves")[0].partition(":")[0])
    first, second = "PsiLogic, step 4", "PsiLogic, step 8"
    assert said[:4] == [first, second, f"{LONG_NAME}, step 4", first]
    assert said[4] == f"{LONG_NAME}, step 8"  # the last value of all
    assert said[5] == ""


def test_a_figure_is_downloaded_as_it_is_shown(browser, tmp_path):
    browser.execute_script(SWITCH, 2)
    data = seen(browser)["data"]
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.execute_script(
        "document.querySelectorAll('#figure-learning_curves .tools button').forEach((x) => x.click())"
    )
    files = [tmp_path / f"learning_curves.{suffix}" for suffix in ("svg", "png", "csv")]
    deadline = time.monotonic() + 60
    while not all(file.exists() for file in files) and time.monotonic() < deadline:
        time.sleep(0.02)
    svg = ElementTree.parse(files[0]).getroot()
    assert {group.get("data-arm") for group in svg.iter() if "data-arm" in group.attrib} == {"0", "1", "3"}
    size = [2 * float(svg.get(name)) for name in ("width", "height")]
    assert Image.open(io.BytesIO(files[1].read_bytes())).size == pytest.approx(size, abs=1)
    rows = [row for row in csv.DictReader(files[2].open()) if row["panel"] == data["arena"]]
    points = [point for point in data["points"] if point[2] != 2]
    y = "validation loss (lower is better)"
    assert [(float(row["training step"]), float(row[y]), row["text"]) for row in rows] == [
        (step, value, text) for step, value, _, text in points
    ]


def test_a_csv_of_a_figure_names_its_columns(browser):
    """Intervals have their ends, phases their milliseconds, curves in seconds both times."""
    files = "return values(document.getElementById(`figure-${arguments[0]}`))"
    browser.execute_script(TOOL, "learning_curves", "x in seconds of training")
    seen(browser)
    tables = {
        name: list(csv.DictReader(io.StringIO(browser.execute_script(files, name))))
        for name in ("learning_curves", "leaderboard", "step_time")
    }
    found = [
        (row["optimizer"], row["training step"], row["training time, seconds"]) for row in tables["learning_curves"]
    ]
    assert ("AdamW", "5", "0.05") in found
    assert {row["validation accuracy (higher is better)"] for row in tables["learning_curves"]} > {"", "0.5075"}
    gain = tables["leaderboard"][0]
    assert float(gain["low"]) < float(gain["gain over PsiLogic, in margins (right is better)"]) < float(gain["high"])
    assert tables["step_time"][3]["phase"] == "step"
    assert float(tables["step_time"][3]["milliseconds per training step"]) == pytest.approx(4)


def test_figures_keep_their_colors_where_no_style_is_allowed(driver, tmp_path):
    """A host may forbid the style of the page; its figures are then drawn in the light colors."""
    show(driver, DESKTOP, "dark")
    strict = tmp_path / "report.html"
    strict.write_text(driver.page_source.replace("style-src 'unsafe-inline'", "style-src 'none'"))
    driver.get(f"file://{strict}")
    color = "return getComputedStyle(document.querySelector(arguments[0])).stroke"
    blue = tuple(int(COLORS["arm-blue"][0][i : i + 2], 16) for i in (1, 3, 5))
    assert driver.execute_script(color, f"#curves [data-arm='1'] [stroke='{COLORS['arm-blue'][0]}']") == f"rgb{blue}"

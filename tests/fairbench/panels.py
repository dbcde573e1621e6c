"""A panel of a figure as tests in the browser read it, and the mouse on it."""

from chromium import wait_until

PANEL = """
const panel = document.querySelector(`#figure-${arguments[0]} .panel`), svg = panel.querySelector('svg');
"""
DRAWN = f"""{PANEL}
const seen = (element) => element.getClientRects().length > 0;
const arms = {{}};
for (const group of svg.querySelectorAll('[data-arm]:not([data-kind])')) {{
    if (group.closest('.again') || !seen(group)) continue;
    const marks = [...group.querySelectorAll('use')].map((use) => ['x', 'y'].map((of) => Number(use.getAttribute(of))));
    arms[group.dataset.arm] = (arms[group.dataset.arm] ?? []).concat(marks);
}}
const texts = (name) => [...svg.querySelectorAll(name)].filter(seen).map((text) => text.textContent);
return {{
    marks: arms, x: texts('[data-axis=x] text'), y: texts('[data-axis=y] text'), data: drawing(panel).data,
    labels: [...svg.querySelectorAll('[data-arm] text')].filter(seen).map((text) => text.textContent),
}}
"""
CENTER = f"{PANEL} svg.scrollIntoView({{block: 'center'}});"
AT = f"""{CENTER}
const it = drawing(panel);
return it.data.points.map((point) => {{
    const [x, y] = position(it, point), at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    return [at.x, at.y, point[2], point[3]];
}})
"""
LIMITS = f"{PANEL} const {{x, y}} = drawing(panel).now; return [x.low, x.high, y.low, y.high]"


def mouse(browser, *moves):
    for kind, x, y in moves:
        event = {"type": f"mouse{kind}", "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", event if kind != "Moved" else {**event, "button": "none"})


def seen(browser, name="learning_curves"):
    browser.execute_script(CENTER, name)
    panel = "document.querySelector(`#figure-${arguments[0]} .panel`)"
    wait_until(browser, f"!stale.has({panel})", name)  # it is drawn again when it comes near the view
    return browser.execute_script(DRAWN, name)

"""A real Chromium, started once for all tests of the page."""

import io
import re
import shutil
import sys

import pytest
from pages import everything
from PIL import Image

PROGRAMS = {"chromium": "chromium", "chromedriver": "chromium-driver"}
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = 390
DESKTOP = 1280
OPENED = "document.querySelectorAll('details').forEach((details) => details.open = true)"


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """Chromium with the page that has everything."""
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    if missing:
        pytest.skip(f"no browser; on Debian: apt-get install {' '.join(missing)}")
    selenium = pytest.importorskip("selenium.webdriver", reason=f"{sys.executable} -m pip install selenium")
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(everything())
    with start(selenium, file.parent / "profile") as found:
        found.page = f"file://{file}"
        found.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})  # also after a page was printed
        yield found


def start(selenium, profile):
    """A Chromium without a window, by the module selenium.webdriver, which writes to the folder `profile`."""
    options = selenium.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return selenium.Chrome(options=options, service=selenium.ChromeService(shutil.which("chromedriver")))


@pytest.fixture
def browser(driver):
    """The page as if just opened, on a desktop and in light."""
    show(driver, DESKTOP, "light")
    return driver


@pytest.fixture
def real(driver, small_study, monkeypatch):
    """The browser with the page of a study that ran, on a desktop and in light."""
    monkeypatch.setattr(driver, "page", f"file://{small_study}/report.html")
    show(driver, DESKTOP, "light")
    return driver


def hexadecimal(color):
    """A color as "#ff8000", from the browser's "rgb(255, 128, 0)"."""
    red, green, blue, *_ = map(int, re.findall(r"\d+", color))
    return f"#{red:02x}{green:02x}{blue:02x}"


def picture(browser, selector, number):
    """The pixels of an element, the one with this number of those that a selector finds."""
    element = browser.find_elements("css selector", selector)[number]
    return Image.open(io.BytesIO(element.screenshot_as_png)).convert("RGB")


def show(driver, width, theme, forced_colors="none"):
    """Open the page in a window of a width, with a theme, and wait until figures and tables have their buttons."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width <= PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = {"prefers-color-scheme": theme, "forced-colors": forced_colors}
    preferred = [{"name": name, "value": value} for name, value in wanted.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": preferred})
    driver.get(driver.page)
    driver.execute_script(OPENED)
    without_buttons = "figure:not(:has(.tools)), [data-table]:not(:has(.tools button))"
    # what stands in `details` gets its buttons when they are open
    wait_until(driver, f"!document.querySelector('{without_buttons}')")


def wait_until(browser, condition, *arguments):
    """Wait until an expression in JavaScript is true. The browser raises an error after 30 seconds."""
    poll = f"const look = () => {condition} ? done() : setTimeout(look, 5); look()"
    browser.execute_script(f"return new Promise((done) => {{ {poll} }})", *arguments)


CODES = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def keys(browser, *names):
    """Press keys, one after the other."""
    for name in names:
        event = {"type": "rawKeyDown", "key": name, "code": name}
        event["windowsVirtualKeyCode"] = CODES.get(name, ord(name[0]))
        if name == "Enter":
            event |= {"type": "keyDown", "text": "\r"}
        browser.execute_cdp_cmd("Input.dispatchKeyEvent", event)


def mouse(browser, *moves):
    """Send events of the mouse, each as "Moved", "Pressed" or "Released" at x and y."""
    for kind, x, y in moves:
        event = {"type": f"mouse{kind}", "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
        if kind == "Moved":
            event["button"] = "none"
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", event)

"""The browser that the tests of the page share."""

from chromium import browser, driver

__all__ = ["browser", "driver"]

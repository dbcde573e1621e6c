"""The browser and the small study that the tests of the page share."""

from chromium import browser, driver, real
from small_study import small_study

__all__ = ["browser", "driver", "real", "small_study"]

"""The report for each medium but the page."""

"""What `make quick` leaves out."""

import pytest


def pytest_collection_modifyitems(items):
    """What asks for a worker of its own is slow: it loads other libraries, starts processes, or compiles."""
    for item in items:
        if item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.slow)

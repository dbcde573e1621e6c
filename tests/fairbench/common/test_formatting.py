"""Numbers as the terminal shows them."""

import pytest

from fairbench.common.formatting import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59.6, "1:00"), (3599, "59:59"), (359_999, "99:59:59"), (360_000, "4 days"), (2.7e9, "31,250 days")],
)
def test_a_duration(seconds, text):
    assert duration(seconds) == text

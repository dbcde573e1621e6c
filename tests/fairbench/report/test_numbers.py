"""Numbers as tables show them: digits, intervals, deviations, percents, times."""

import pytest

from fairbench.common.column_formatting import column_of_intervals, column_of_means, column_of_percents
from fairbench.common.formatting import (
    confidence_level,
    duration,
    exact,
    interval,
    interval_name,
    mean_and_deviation,
    percent,
    rate,
    with_minus_signs,
)


def with_plain_spaces(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_intervals():
    assert with_plain_spaces(interval(2.65e-05, -0.00139, 0.00144)) == "+0.00003 [−0.00139, +0.00144]"
    assert with_plain_spaces(interval(-1.4e-5, -0.0439, 0.0410)) == "0.000 [−0.044, +0.041]"
    assert with_plain_spaces(interval(0.16, 0.0194, 0.3012)) == "+0.160 [+0.019, +0.301]"
    assert with_plain_spaces(interval(1.23e12, -4e11, 2.86e12)) == "+1.23e+12 [−0.40e+12, +2.86e+12]"
    assert with_plain_spaces(interval(1e-12, -4e-13, 2e-12)) == "+1.00e−12 [−0.40e−12, +2.00e−12]"
    assert with_plain_spaces(interval(0.5, 0.5 - 1e-15, 0.5 + 1e-15)) == "+0.500000000 [+0.500000000, +0.500000000]"
    assert with_plain_spaces(interval(1e200, -1e308, 1e308)) == "+1.00e+200"
    assert with_plain_spaces(interval(0.0, -5e-324, 5e-324)) == "0.0e−324 [−4.9e−324, +4.9e−324]"
    assert with_plain_spaces(interval(0.01, None, None)) == "+0.0100"


def test_means_and_deviations():
    assert with_plain_spaces(mean_and_deviation(2.5291, 0.0312)) == "2.529 ± 0.031"
    assert with_plain_spaces(mean_and_deviation(1.0000001, 2e-8)) == "1.00000010 ± 0.00000002"
    assert with_plain_spaces(mean_and_deviation(0.5, 0.0)) == "0.5000 ± 0"


def test_rates():
    assert with_plain_spaces(rate(3.16228e-05)) == "3.16e-05"
    assert with_plain_spaces(rate(0.00316228)) == "0.00316"
    assert with_plain_spaces(rate(0.0125)) == "0.0125"
    assert with_plain_spaces(rate(0.001)) == "0.001"
    assert with_plain_spaces(rate(0.1234)) == "0.1234"


def test_percents():
    assert with_plain_spaces(percent(0.00235)) == "0.24%"
    assert with_plain_spaces(percent(0.24)) == "24%"
    assert with_plain_spaces(percent(0.9996)) == "over 99%"
    assert with_plain_spaces(percent(1.0)) == "100%"
    assert with_plain_spaces(percent(1.5)) == "150%"


def test_durations():
    assert with_plain_spaces(duration(59.6)) == "1:00"
    assert with_plain_spaces(duration(3599)) == "59:59"
    assert with_plain_spaces(duration(359_999)) == "99:59:59"
    assert with_plain_spaces(duration(360_000)) == "4 days"
    assert with_plain_spaces(duration(2.7e9)) == "31,250 days"


def test_numbers_in_full():
    assert with_plain_spaces(exact(8400.0)) == "8400"
    assert with_plain_spaces(exact(1410)) == "1410"
    assert with_plain_spaces(exact(1e6)) == "1000000"
    assert with_plain_spaces(exact(-2.5)) == "−2.5"


VARYING = [(0.50584, 0.00394), (0.70912, 0.00031), (10.642, 0.035), (0.6, 0.0), (0.6, None), (None, None)]
ONE_TINY = [(0.5, 0.02), (0.6, 0.03), (0.7, 0.0000004)]
ONE_SMALL = [(0.5, 0.02), (0.6, 0.03), (0.7, 0.0003)]
NO_DEVIATIONS = [(2.5291, None), (12.25, None), (0.1, None)]
ONE_HUGE = [(-2e12, 3e11), (1.5, 0.25)]
NOTHING = [(None, None)]


@pytest.mark.parametrize(
    ("pairs", "column"),
    [
        (VARYING, ["0.5058 ± 0.0039", "0.7091 ± 0.0003", "10.6420 ± 0.0350", "0.6000 ± 0", "0.6000", "–"]),
        (ONE_TINY, ["0.500 ± 0.020", "0.600 ± 0.030", "0.70000000 ± 0.00000040"]),
        (ONE_SMALL, ["0.5000 ± 0.0200", "0.6000 ± 0.0300", "0.7000 ± 0.0003"]),
        (NO_DEVIATIONS, ["2.529", "12.250", "0.100"]),
        (ONE_HUGE, ["−2.00e+12 ± 0.30e+12", "1.50 ± 0.25"]),
        (NOTHING, ["–"]),
    ],
)
def test_a_column_of_means_has_one_number_of_decimals(pairs, column):
    """But for a value whose deviation would be 0 in them, and where one needs an exponent."""
    assert list(map(with_plain_spaces, column_of_means(pairs))) == column


def test_gains_and_shares_of_a_column_have_one_number_of_decimals():
    gains = [(0.0112, -0.0101, 0.0325), (0.1234, 0.1, 0.1468), (-0.00004, -0.0003, 0.0002), (0.01, None, None)]
    texts = ["+0.0112 [−0.0101, +0.0325]", "+0.1234 [+0.1000, +0.1468]", "0.0000 [−0.0003, +0.0002]", "+0.0100"]
    assert column_of_intervals(gains) == texts
    shares = [0.0024, 0.24, 0.05, 1.0, 0.9999, None]
    assert column_of_percents(shares) == ["0.24%", "24%", "5%", "100%", "over 99%", "–"]
    tiny = [1e-30, 1e-30, 0.24]
    assert column_of_percents(tiny) == ["1.0e−28%", "1.0e−28%", "24%"]


def test_an_end_of_an_interval_near_0_has_its_sign_and_its_first_digit():
    """Whether an interval contains 0 decides: +0.0000 would not say it."""
    assert column_of_intervals([(0.0112, -0.0101, 0.0325), (0.02, 0.000001, 0.04), (0.02, -0.00001, 0.04)]) == [
        "+0.011 [−0.010, +0.033]",
        "+0.020 [+0.000001, +0.040]",
        "+0.020 [−0.00001, +0.040]",
    ]


def test_levels_of_intervals():
    """The level of no interval is rounded to 100%."""
    outside = [0.1, 0.1 / 9, 0.05, 0.05 / 2, 0.05 / 12, 0.05 / 104, 3e-7]
    levels = [1 - share for share in outside]
    texts = ["90%", "98.9%", "95%", "97.5%", "99.6%", "99.95%", "99.99997%"]
    assert [confidence_level(level) for level in levels] == texts
    assert confidence_level(None) == "–"
    assert interval_name([1 - 0.05 / 12, None, 0.95]) == "95% to 99.6% interval"
    assert interval_name([0.95, 0.95]) == "95% interval"
    assert interval_name([None]) == "interval"


def test_negative_numbers_in_a_text_have_a_minus():
    text = "gains -0.161 more, -.5 [-2, -1]; 2026-11-30, 1e-08, lr_-3, x-1 and --timing"
    expected = "gains −0.161 more, −.5 [−2, −1]; 2026-11-30, 1e-08, lr_-3, x-1 and --timing"
    assert with_minus_signs(text) == expected

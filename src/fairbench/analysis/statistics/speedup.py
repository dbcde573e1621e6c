"""The length of training with which a reference reaches a value, with a 95% confidence interval over seeds."""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import isotonic_regression

from fairbench.analysis.statistics.significance import critical_t

Array = np.ndarray[Any, np.dtype[np.float64]]
POINTS = 64
"""The number of points at which the curve is compared, from one horizon to the next."""


class Reach(NamedTuple):
    """The shortest horizon with which a reference's mean is as good as a value; `Speedup` explains the fields."""

    speedup: float | None
    ci_low: float | None
    ci_high: float | None
    beyond: str


def reach(horizons: Array, curve: Array, values: Array) -> Reach:
    """Invert a reference's curve over horizons at the mean of some values; lower values are better.

    The curve of each seed is interpolated monotonically over the logarithm of the horizon. With d_i(h) = R_i(h) - a_i,
    its difference from the value of the same seed, the interval has every horizon that no t-test rules out:

        |mean(d(h))| <= t_(0.975, n-1) std(d(h)) / sqrt(n)

    So it is right however the seeds of several horizons correlate, and wide where the curve is flat. It is open at an
    end of the curve that is not ruled out. The horizon itself is read from the isotonic means.

    Args:
        horizons: the horizons that were trained, rising, shape (K,), K at least 2.
        curve: final values of the reference, shape (K, n): a row for each horizon, a column for each seed.
        values: the values to reach, one for each of the same seeds, shape (n,), n at least 2.

    Source: Fieller, "Some problems in interval estimation", J. R. Stat. Soc. B 1954, on intervals that are inverted
    tests; Fritsch and Carlson, "Monotone piecewise cubic interpolation", SIAM J. Numer. Anal. 1980.
    """
    n = len(values)
    trained = np.log(horizons)
    points = _points_between(trained)
    differences = PchipInterpolator(trained, curve, axis=0)(points) - values
    mean = differences.mean(axis=1)
    error = differences.std(axis=1, ddof=1) / math.sqrt(n)
    half_width = critical_t(0.025, n - 1) * error
    falling_means = isotonic_regression(curve.mean(axis=1), increasing=False).x
    gap = PchipInterpolator(trained, falling_means)(points) - values.mean()
    log_horizon = _crossing(points, gap)
    log_low = _crossing(points, mean - half_width)
    # the upper limit is the first crossing from the other end: seen from there, minus the upper bound falls
    upper_bound = mean + half_width
    minus_log_high = _crossing(-points[::-1], -upper_bound[::-1])

    speedup = None
    beyond = ""
    if log_horizon == math.inf:
        beyond = "at least"
    elif log_horizon == -math.inf:
        beyond = "at most"
    else:
        speedup = math.exp(log_horizon)
    ci_low = None
    if log_low != -math.inf:
        ci_low = min(math.exp(log_low), float(horizons[-1]))
    ci_high = None
    if minus_log_high != -math.inf:
        ci_high = max(math.exp(-minus_log_high), float(horizons[0]))
    return Reach(speedup=speedup, ci_low=ci_low, ci_high=ci_high, beyond=beyond)


def _points_between(trained: Array) -> Array:
    """The points at which a curve is compared, from the first of the trained horizons to the last."""
    parts = [trained[:1]]
    for start, end in pairwise(trained):
        points = np.linspace(start, end, POINTS + 1)
        parts.append(points[1:])
    return np.concatenate(parts)


def _crossing(points: Array, values: Array) -> float:
    """The first point at which falling values reach 0, by linear interpolation.

    Infinity if the values never reach 0; minus infinity if the first value is already below 0.
    """
    if values[0] == 0:
        return float(points[0])
    if values[0] < 0:
        return -math.inf
    not_above = np.flatnonzero(values <= 0)
    if not_above.size == 0:
        return math.inf
    after = int(not_above[0])
    before = after - 1
    width = points[after] - points[before]
    fall = values[before] - values[after]
    return float(points[before] + width * values[before] / fall)

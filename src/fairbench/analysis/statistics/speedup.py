"""How much longer a reference must be trained to reach a value, with a 95% confidence interval over seeds."""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import isotonic_regression

from fairbench.analysis.statistics.significance import critical_t

Array = np.ndarray[Any, np.dtype[np.float64]]
POINTS = 64
"""The points at which the curve is compared, from one horizon to the next."""


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

    So it is right however the seeds of several horizons correlate, wide where the curve is flat, and open at an end of
    the curve that is not ruled out. The horizon itself is that of the isotonic means.

    Args:
        horizons: those that were trained, rising, shape (K,), K at least 2.
        curve: final values of the reference, shape (K, n): a row for each horizon, a column for each seed.
        values: the values to reach, one for each of the same seeds, shape (n,), n at least 2.

    Source: Fieller, "Some problems in interval estimation", J. R. Stat. Soc. B 1954, on intervals that are inverted
    tests; Fritsch and Carlson, "Monotone piecewise cubic interpolation", SIAM J. Numer. Anal. 1980.
    """
    ends, n = np.log(horizons), len(values)
    at = np.concatenate([ends[:1], *(np.linspace(a, b, POINTS + 1)[1:] for a, b in pairwise(ends))])
    differences = PchipInterpolator(ends, curve, axis=0)(at) - values
    mean, error = differences.mean(axis=1), differences.std(axis=1, ddof=1) / math.sqrt(n)
    half = critical_t(0.025, n - 1) * error
    falling = isotonic_regression(curve.mean(axis=1), increasing=False).x
    found = _crossing(at, PchipInterpolator(ends, falling)(at) - values.mean())
    low = _crossing(at, mean - half)
    high = _crossing(-at[::-1], (-mean - half)[::-1])
    return Reach(
        None if found in (-math.inf, math.inf) else math.exp(found),
        None if low == -math.inf else min(math.exp(low), float(horizons[-1])),
        None if high == -math.inf else max(math.exp(-high), float(horizons[0])),
        {math.inf: "at least", -math.inf: "at most"}.get(found, ""),
    )


def _crossing(at: Array, values: Array) -> float:
    """Where values that begin above 0 first are 0; infinite if they never are, minus infinite if they begin below."""
    if values[0] <= 0:
        return at[0] if values[0] == 0 else -math.inf
    below = np.flatnonzero(values <= 0)
    if not below.size:
        return math.inf
    i = int(below[0])
    return float(at[i - 1] + (at[i] - at[i - 1]) * values[i - 1] / (values[i - 1] - values[i]))

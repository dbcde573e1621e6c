"""Whether two arms scatter alike: an optimizer may be as good on the mean and less reliable."""

from statistics import median

from scipy import stats

from fairbench.analysis.significance import Values


def brown_forsythe(a: Values, b: Values) -> float | None:
    """Test that two arms have the same spread, whatever their means: an F-test of |x - median|.

    Args:
        a: one sample.
        b: the other.

    Returns:
        The p-value; None where the distances from the median are constant in both samples, as those of two seeds are.

    Source: Brown and Forsythe, "Robust tests for the equality of variances", J. Am. Stat. Assoc. 1974.
    """
    if all(_constant([abs(x - median(values)) for x in values]) for values in (a, b)):
        return None
    return float(stats.levene(a, b, center="median").pvalue)


def _constant(distances: Values) -> bool:
    """Whether distances differ by no more than the rounding of their subtraction."""
    return max(distances) - min(distances) <= 1e-9 * max(distances)

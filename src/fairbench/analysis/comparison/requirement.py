"""A requirement of every comparison, for continuous integration: better, not worse, or equivalent."""

from collections.abc import Sequence

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.significance import holm
from fairbench.common.formatting import confidence_level, p_value, plain, some

EQUAL = ("identical", "identical values")
"""The verdicts on two arms without any difference."""


def unmet(
    comparisons: Sequence[Comparison], requirement: str, alpha: float, declared: Sequence[Comparison] = ()
) -> str:
    """A sentence on the comparisons for which a requirement does not hold; empty if it holds for each of them.

    Seeds that are added after a look at the results make false verdicts more frequent. So a requirement must also hold
    by the plan that was declared before the first final trial.

    Args:
        comparisons: all comparisons of a study, which are corrected together.
        requirement: "better", "no-worse" (than by the margin), or "equivalent".
        alpha: the family-wise error rate.
        declared: the comparisons by the declared plan; empty if there was none, or nothing was compared.
    """
    if not comparisons:
        return f"{requirement} is required, and nothing is compared"
    reasons = _reasons(comparisons, requirement, alpha)
    if reasons:
        return f"{requirement} is required, and does not hold at {alpha:g}: {some(reasons, '; ')}"
    reasons = _reasons(declared, requirement, alpha)
    if reasons:
        plan = "the plan that was declared before the first final trial"
        return f"{requirement} is required, and does not hold at {alpha:g} by {plan}: {some(reasons, '; ')}"
    return ""


def met(comparisons: Sequence[Comparison], requirement: str, alpha: float) -> str:
    """A sentence on the comparisons for which a requirement holds, as `unmet` has checked, with what shows it."""
    if not comparisons:
        return ""
    shown = [_shown(comparison) for comparison in comparisons]
    return f"{requirement} holds at {alpha:g}: {some(shown, '; ')}"


def _shown(comparison: Comparison) -> str:
    """What shows that a requirement holds for a comparison: its gain with the interval, and the margin."""
    c = comparison
    parts = [f"{c.arena}, {c.optimizer} against {c.baseline}: {c.verdict}"]
    if c.gain is not None and c.verdict not in EQUAL:
        parts.append(f"gain {plain(c.gain, '+.3g')}")
        if c.ci_low is not None and c.ci_high is not None:
            ends = f"from {plain(c.ci_low, '+.3g')} to {plain(c.ci_high, '+.3g')}"
            parts.append(f"{confidence_level(c.ci_level)} interval {ends}")
    if c.margin is not None:
        parts.append(f"margin {c.margin:g}")
    if c.verdict == "identical values":
        parts.append("in every seed: the metric is too coarse, or the change has no effect, so check which")
    return ", ".join(parts)


def _reasons(comparisons: Sequence[Comparison], requirement: str, alpha: float) -> list[str]:
    """Why a requirement does not hold, for each comparison for which it does not."""
    corrected = holm([comparison.p_no_worse for comparison in comparisons])
    reasons = []
    for comparison, p in zip(comparisons, corrected, strict=True):
        if requirement == "better":
            holds = comparison.verdict == "better"
        elif requirement == "equivalent":
            holds = comparison.verdict in ("equivalent", *EQUAL)
        else:
            holds = comparison.verdict in EQUAL or _is_shown(comparison, p, alpha)
        if not holds:
            reasons.append(_reason(comparison, requirement, p))
    return reasons


def _is_shown(comparison: Comparison, p: float | None, alpha: float) -> bool:
    """Whether the one-sided test shows that the optimizer is not worse by the margin; `p` is its corrected p-value."""
    has_values = comparison.verdict not in ("incomplete", "diverged")
    return has_values and p is not None and p < alpha


def _reason(comparison: Comparison, requirement: str, p: float | None) -> str:
    """Why a requirement does not hold for a comparison: its verdict, its gain, and what the test says.

    `p` is the corrected p-value of the one-sided test.
    """
    c = comparison
    parts = [f"{c.arena}, {c.optimizer} against {c.baseline}: {c.statement}"]
    if c.gain is not None:
        parts.append(f"gain {plain(c.gain, '+.3g')}")
    if requirement == "no-worse":
        if c.margin is None:
            parts.append("no margin is declared")
        elif p is not None:
            parts.append(f"p {p_value(p)} for no worse than by the margin {c.margin:g}")
    if c.verdict == "inconclusive" and c.seeds_needed is not None and c.seeds_needed > c.seeds:
        parts.append(f"{c.seeds_needed} seeds would detect the margin")
    return ", ".join(parts)

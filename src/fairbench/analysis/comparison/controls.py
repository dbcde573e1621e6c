"""The contribution of each ablation step of a control ladder to the gain of the whole."""

from dataclasses import dataclass, replace
from itertools import pairwise

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Results
from fairbench.analysis.statistics.significance import paired_t
from fairbench.suites.schema import Suite

WHOLE = "whole"


@dataclass(frozen=True)
class Contribution:
    """The gain of one optimizer of a control ladder over a lower one, seed by seed, on the test split.

    The contributions of an arena's ablation steps sum to its whole.

    Attributes:
        part: "ablation step" for neighbors on it, "whole" for its ends.
        optimizer: the upper one of the two.
        before: the lower one.
        n: number of seeds that both have.
        contribution: mean difference of the seeds, positive where `optimizer` is better; None unless both are complete.
    """

    arena: str
    metric: str
    part: str
    optimizer: str
    before: str
    n: int
    contribution: float | None
    ci_low: float | None
    ci_high: float | None
    note: str


def contributions(analyses: Analyses) -> list[Contribution]:
    """The contribution of each ablation step in each arena, from the bottom, and then of the whole control ladder.

    Empty for a suite without a control ladder.

        contribution of ablation step k = mean over seeds of m_k - m_(k-1),    whole = mean over seeds of m_K - m_0

    m_k is the primary metric of the k-th optimizer from the bottom, with the sign that makes higher better.
    """
    suite = analyses.suite
    controls = suite.controls
    if not controls:
        return []
    rows = []
    for arena in suite.compared_arenas:
        for before, optimizer in pairwise(controls):
            rows.append(_contribution(analyses.results, arena, "ablation step", before, optimizer))
        rows.append(_contribution(analyses.results, arena, WHOLE, controls[0], controls[-1]))
    return rows


def _contribution(results: Results, arena: str, part: str, before: str, optimizer: str) -> Contribution:
    """The gain of an optimizer over a lower one in an arena."""
    suite = results.study.suite
    metric = suite.arenas[arena].metric
    sign = suite.sign(arena)
    upper = results.arm(arena, optimizer)
    lower = results.arm(arena, before)
    unknown = Contribution(
        arena=arena,
        metric=metric,
        part=part,
        optimizer=optimizer,
        before=before,
        n=0,
        contribution=None,
        ci_low=None,
        ci_high=None,
        note="",
    )
    incomplete = [_finished_in_words(arm, suite) for arm in (upper, lower) if not arm.complete]
    if incomplete:
        return replace(unknown, note=", ".join(incomplete))
    # with interim analyses one arm may have more seeds
    n = min(len(upper.final), len(lower.final))
    upper_gains = [sign * score for score in upper.scores(metric)[:n]]
    lower_gains = [sign * score for score in lower.scores(metric)[:n]]
    test = paired_t(upper_gains, lower_gains)
    return replace(
        unknown,
        n=n,
        contribution=test.difference,
        ci_low=test.ci_low,
        ci_high=test.ci_high,
        note=test.reason,
    )


def _finished_in_words(arm: ArmResults, suite: Suite) -> str:
    """The number of finished seeds of an arm in words: "AdamW finished 2 of 5 seeds"."""
    seeds = len(arm.final) or len(suite.final.seeds)
    return f"{arm.optimizer} finished {arm.count('finished')} of {seeds} seeds"

"""The contribution of each rung of a control ladder to the gain of the whole."""

from dataclasses import dataclass
from itertools import pairwise

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import Results
from fairbench.analysis.statistics.significance import paired_t

WHOLE = "whole"


@dataclass(frozen=True)
class Contribution:
    """The gain of one optimizer of a control ladder over a lower one, seed by seed, on the test split.

    The contributions of an arena's rungs sum to its whole.

    Attributes:
        part: "rung" for neighbors on it, "whole" for its ends.
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
    """For each arena the rungs of the control ladder from the bottom, then the whole; nothing without one.

        contribution of rung k = mean over seeds of m_k - m_(k-1),    whole = mean over seeds of m_K - m_0

    where m is the primary metric, with the sign that makes higher better.
    """
    suite, controls = analyses.suite, analyses.suite.controls
    if not controls:
        return []
    steps = [("rung", *pair) for pair in pairwise(controls)] + [(WHOLE, controls[0], controls[-1])]
    return [_contribution(analyses.results, arena, *step) for arena in suite.compared_arenas for step in steps]


def _contribution(results: Results, arena: str, part: str, before: str, optimizer: str) -> Contribution:
    suite = results.study.suite
    metric = suite.arenas[arena].metric
    arms = [results.arm(arena, name) for name in (optimizer, before)]
    about = (arena, metric, part, optimizer, before)
    if incomplete := [arm for arm in arms if not arm.complete]:
        seeds = len(suite.final.seeds)
        counts = (f"{x.optimizer} finished {x.count('finished')} of {len(x.final) or seeds} seeds" for x in incomplete)
        return Contribution(*about, 0, None, None, None, ", ".join(counts))
    n = min(len(arm.final) for arm in arms)  # with looks, the seeds that both have
    test = paired_t(*([suite.sign(arena) * score for score in arm.scores(metric)[:n]] for arm in arms))
    return Contribution(*about, n, test.difference, test.ci_low, test.ci_high, test.reason)

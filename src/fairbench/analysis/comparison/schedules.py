"""Whether a gain depends on the learning-rate schedule: optimizers x schedules, two of each at a time."""

from dataclasses import dataclass, replace
from itertools import combinations
from math import hypot, sqrt

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.analysis.statistics.significance import TTest, holm, t_test
from fairbench.suites.schema import Suite


@dataclass(frozen=True)
class Interaction:
    """The gain of one optimizer over another under two schedules, and the difference of the two gains.

    Attributes:
        arena: name of the arena without the schedule.
        schedule_a, schedule_b: the two schedules, in the order of the suite.
        gain_a, gain_b: `gain` of significance.csv with this schedule, positive where `optimizer` is
            better; None unless all seeds of both finished.
        verdict_a, verdict_b: `verdict` of significance.csv with this schedule.
        survives: "yes" if both verdicts are better, or both worse; "no" if only one of them is, or they are opposite;
            "not decided" if neither is, or trials are missing.
        interaction: `gain_b` minus `gain_a`.
        p: two-sided p-value of the interaction; with looks it is not corrected for them.
        p_holm: `p` corrected for all interactions of the suite.
        n: finished seeds of the four arms together.
    """

    arena: str
    optimizer: str
    baseline: str
    metric: str
    schedule_a: str
    schedule_b: str
    gain_a: float | None
    gain_b: float | None
    verdict_a: str
    verdict_b: str
    survives: str
    interaction: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    p_holm: float | None
    n: int
    note: str


def interactions(analyses: Analyses) -> list[Interaction]:
    """A row for each two schedules of an arena and each compared pair of optimizers, in the order of the suite.

        interaction = gain_b - gain_a
        t = interaction / (s sqrt(sum 1 / n_i)),    s^2 = sum (n_i - 1) s_i^2 / df,    df = sum n_i - 4

    The sums are over the four arms. It is the interaction of the linear model value ~ optimizer * schedule.

    Source: Montgomery, "Design and Analysis of Experiments", the two-factor factorial design.
    """
    suite = analyses.suite
    found = {c.pair: c for c in analyses.comparisons}
    rows = [
        _interaction(name, both, *(found[arenas[schedule], optimizer, baseline] for schedule in both))
        for name, arenas in _families(suite)
        for optimizer, baseline in suite.pairs
        for both in combinations(arenas, 2)
    ]
    adjusted = holm([row.p for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def _families(suite: Suite) -> list[tuple[str, dict[str, str]]]:
    """The arenas that are made of one and differ in the schedule alone: their common name, and each by its schedule."""
    scheduled = [x for x in suite.compared_arenas if suite.arenas[x].ladder_point and suite.arenas[x].schedule]
    families = []
    for names in suite.alike(scheduled, "schedule", "tuning_arena"):
        arenas = {suite.arenas[x].schedule: x for x in names}
        families.append(("".join(names[0].rsplit(f"-{next(iter(arenas))}", 1)), arenas))
    return families


def _interaction(arena: str, schedules: tuple[str, str], a: Comparison, b: Comparison) -> Interaction:
    test = None if a.gain is None or b.gain is None else _test(b.gain - a.gain, a, b)
    lost = (f"{c.arena} {c.verdict}: {c.note}" for c in (a, b) if c.gain is None)
    about = (arena, a.optimizer, a.baseline, a.metric, *schedules, a.gain, b.gain, a.verdict, b.verdict)
    difference, low, high, p = (getattr(test, x, None) for x in ("difference", "ci_low", "ci_high", "p"))
    n, note = sum(c.n_optimizer + c.n_baseline for c in (a, b)), test.reason if test else "; ".join(lost)
    return Interaction(*about, _survives(a.verdict, b.verdict), difference, low, high, p, None, n, note)


def _test(difference: float, a: Comparison, b: Comparison) -> TTest:
    """The t-test of a difference of gains, with the pooled variance of the four arms."""
    arms = [x for c in (a, b) for x in ((c.n_optimizer, c.std_optimizer), (c.n_baseline, c.std_baseline))]
    df = sum(n for n, _ in arms) - len(arms)
    if df < 1:
        return TTest(difference, reason="fewer than 2 seeds, no test")
    spread = hypot(*(sqrt((n - 1) / df) * (std or 0.0) for n, std in arms))
    if spread == 0:
        return TTest(difference, reason="no variance in any arm, no test")
    return t_test(difference, spread * sqrt(sum(1 / n for n, _ in arms)), df)


def _survives(a: Verdict, b: Verdict) -> str:
    if "incomplete" in (a, b) or not {a, b} & {"better", "worse"}:
        return "not decided"
    return "yes" if a == b else "no"

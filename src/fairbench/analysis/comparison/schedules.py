"""Tests whether a gain depends on the learning-rate schedule, for two optimizers and two schedules at a time."""

from dataclasses import dataclass, replace
from itertools import combinations
from math import hypot, sqrt

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.analysis.results import Results
from fairbench.analysis.statistics.significance import TTest, holm, paired_t, t_test
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
        method: "paired" if the gains are compared seed by seed, or "pooled" if the variance of the four arms is pooled,
            see `interactions`; empty without an interaction.
        p: two-sided p-value of the interaction; with interim analyses it is not corrected for them.
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
    method: str
    interaction: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    p_holm: float | None
    n: int
    note: str


def interactions(analyses: Analyses) -> list[Interaction]:
    """The interaction of each compared pair of optimizers with each two schedules of an arena, in the suite's order.

    If the suite compares seed by seed, and all four arms have the same seeds, the gains are compared so too:

        interaction = mean of d_i,    d_i = gain_b - gain_a in seed i
        t = interaction / (std(d) / sqrt(n))

    Otherwise it is the interaction of the linear model value ~ optimizer * schedule:

        interaction = gain_b - gain_a
        t = interaction / (s sqrt(sum 1 / n_i)),    s^2 = sum (n_i - 1) s_i^2 / df,    df = sum n_i - 4

    These sums are over the four arms.

    Source: Montgomery, "Design and Analysis of Experiments", the two-factor factorial design.
    """
    suite = analyses.suite
    comparisons = {c.pair: c for c in analyses.comparisons}
    rows = []
    for name, arena_of_schedule in _families(suite):
        for optimizer, baseline in suite.pairs:
            for schedules in combinations(arena_of_schedule, 2):
                a, b = (comparisons[arena_of_schedule[schedule], optimizer, baseline] for schedule in schedules)
                rows.append(_interaction(name, schedules, a, b, analyses.results))
    adjusted = holm([row.p for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def _families(suite: Suite) -> list[tuple[str, dict[str, str]]]:
    """Groups of arenas that are made of one arena with several schedules, and differ in nothing else.

    Returns:
        For each group its common name, and the name of each arena by its schedule.
    """
    scheduled = []
    for name in suite.compared_arenas:
        plan = suite.arenas[name]
        # An arena of the suite file itself has no ladder point, even with a schedule.
        if plan.ladder_point and plan.schedule:
            scheduled.append(name)
    families = []
    for names in suite.alike(scheduled, "schedule", "tuning_arena"):
        arena_of_schedule = {suite.arenas[name].schedule: name for name in names}
        first_schedule = next(iter(arena_of_schedule))
        # "gpt-cosine-long" and "gpt-linear-long" are both "gpt-long"
        common_name = "".join(names[0].rsplit(f"-{first_schedule}", 1))
        families.append((common_name, arena_of_schedule))
    return families


def _interaction(arena: str, schedules: tuple[str, str], a: Comparison, b: Comparison, results: Results) -> Interaction:
    """The interaction of two optimizers and two schedules, before Holm's correction.

    Args:
        arena: the common name of the arenas.
        schedules: the two schedules.
        a, b: the comparison of the optimizers with each schedule.
        results: the records of the study.
    """
    schedule_a, schedule_b = schedules
    row = Interaction(
        arena=arena,
        optimizer=a.optimizer,
        baseline=a.baseline,
        metric=a.metric,
        schedule_a=schedule_a,
        schedule_b=schedule_b,
        gain_a=a.gain,
        gain_b=b.gain,
        verdict_a=a.verdict,
        verdict_b=b.verdict,
        survives=_survives(a.verdict, b.verdict),
        method="",
        interaction=None,
        ci_low=None,
        ci_high=None,
        p=None,
        p_holm=None,
        n=a.n_optimizer + a.n_baseline + b.n_optimizer + b.n_baseline,
        note="",
    )
    if a.gain is None or b.gain is None:
        lost = [f"{c.arena} {c.verdict}: {c.note}" for c in (a, b) if c.gain is None]
        return replace(row, note="; ".join(lost))
    method = "paired"
    test = _paired_test(a, b, results)
    if test is None:
        method = "pooled"
        test = _pooled_test(b.gain - a.gain, a, b)
    return replace(
        row,
        method=method,
        interaction=test.difference,
        ci_low=test.ci_low,
        ci_high=test.ci_high,
        p=test.p,
        note=test.reason,
    )


def _paired_test(a: Comparison, b: Comparison, results: Results) -> TTest | None:
    """The t-test of the differences of the gains, seed by seed.

    None if the suite does not compare so, or if an arm has other seeds than the comparisons. That happens with interim
    analyses. More seeds may then have selected another setting than the one that was compared.
    """
    if a.test != "paired" or a.seeds != b.seeds:
        return None
    gains = []
    for c in (a, b):
        ours = results.arm(c.arena, c.optimizer)
        theirs = results.arm(c.arena, c.baseline)
        if not len(ours.final) == len(theirs.final) == c.seeds:
            return None
        pairs = zip(ours.scores(c.metric), theirs.scores(c.metric), strict=True)
        gains.append([c.sign * (our_score - their_score) for our_score, their_score in pairs])
    gains_a, gains_b = gains
    return paired_t(gains_b, gains_a)


def _pooled_test(difference: float, a: Comparison, b: Comparison) -> TTest:
    """The t-test of a difference of gains, with the pooled variance of the four arms."""
    seeds = [a.n_optimizer, a.n_baseline, b.n_optimizer, b.n_baseline]
    spreads = [a.std_optimizer, a.std_baseline, b.std_optimizer, b.std_baseline]
    df = sum(seeds) - len(seeds)
    if df < 1:
        return TTest(difference, reason="fewer than 2 seeds, no test")
    shares = [sqrt((n - 1) / df) * (std or 0.0) for n, std in zip(seeds, spreads, strict=True)]
    pooled = hypot(*shares)
    if pooled == 0:
        return TTest(difference, reason="no variance in any arm, no test")
    error = pooled * sqrt(sum(1 / n for n in seeds))
    return t_test(difference, error, df)


def _survives(a: Verdict, b: Verdict) -> str:
    """Whether a verdict under one schedule holds under the other one, see `Interaction`."""
    if "incomplete" in (a, b):
        return "not decided"
    if not any(verdict in ("better", "worse") for verdict in (a, b)):
        return "not decided"
    if a == b:
        return "yes"
    return "no"

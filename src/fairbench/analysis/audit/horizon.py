"""Checks of whether the result depends on the length of training; differences within the margin never count."""

from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.size_trends import ladder_laws, size_trends
from fairbench.analysis.comparison.speedups import speedups
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.significance import difference_test
from fairbench.common.checks import check
from fairbench.common.formatting import plain
from fairbench.suites.schema import Suite

DECIDED = ("better", "worse", "equivalent")
"""Verdicts that contradict each other."""
LENGTH = ("steps", "sweep_steps", "margin", "tuning_arena", "ladder_point")
"""Fields of an arena's plan that may differ between two horizons."""
MISFIT = 4.0
"""The misfit of a law from which its residuals are twice what seeds explain."""
SeedCurves = dict[int, dict[int, float]]
"""The validation metric by seed and step, with the sign that makes higher better."""


@check(
    "flip between horizons", "warn", "Claim nothing beyond the horizon; add a longer one to see which verdict stays."
)
def flips_between_horizons(case: Analyses) -> Iterator[str]:
    """The verdict, or the order by more than the margin, differs between the last two horizons of a task."""
    comparisons = {c.pair: c for c in case.comparisons}
    longer = _last_horizons(case.suite)
    for (arena, reference, baseline), short in comparisons.items():
        long = comparisons.get((longer.get(arena, ""), reference, baseline))
        contradict = long and short.verdict != long.verdict and {short.verdict, long.verdict} <= {*DECIDED}
        if long and (contradict or _flip(short.gain, long.gain, case.margin(long))):
            yield f"{case.title(short)} {_in_words(short)}, {case.title(long)} {_in_words(long)}"


def _last_horizons(suite: Suite) -> dict[str, str]:
    """The arena with the last horizon of a task, by the one with the horizon before it."""
    rising = sorted(suite.arenas, key=lambda name: suite.arenas[name].steps)
    horizons = [[*{suite.arenas[x].steps: x for x in names}.values()] for names in suite.alike(rising, *LENGTH)]
    return {names[-2]: names[-1] for names in horizons if len(names) > 1}


def _flip(before: float | None, after: float | None, margin: float) -> bool:
    """Whether a difference changes its sign, and exceeds the margin on at least one side."""
    if before is None or after is None:
        return False
    return before * after < 0 and max(abs(before), abs(after)) > margin


def _in_words(c: Comparison) -> str:
    return c.verdict if c.gain is None else f"{c.verdict} ({plain(c.gain, '+.3g')})"


@check("order not settled", "warn", "Take the order of these two as open; train longer, or evaluate more often.")
def order_not_settled(case: Analyses) -> Iterator[str]:
    """Between the last two validation evaluations two means change their order, and differ by more than the margin."""
    for c, ours, theirs in _pairs(case):
        steps = sorted(next(iter(ours.values())))
        gaps = [(s, fmean(x[s] for x in ours.values()) - fmean(x[s] for x in theirs.values())) for s in steps]
        for (before, gap), (after, last) in list(pairwise(gaps))[-1:]:
            if _flip(gap, last, case.margin(c)):
                both = f"{plain(gap, '+.3g')} at step {before}, {plain(last, '+.3g')} at step {after}"
                yield f"{case.title(c)} {both}"


@check("gap still changes", "warn", "Claim nothing beyond the horizon; add a longer one.")
def gap_changes(case: Analyses) -> Iterator[str]:
    """In the last third one of two arms gains more, by more than the margin and significantly."""
    suite = case.suite
    for c, ours, theirs in _pairs(case):
        a, b = _gains(ours), _gains(theirs)
        if not (seeds := [seed for seed in a if seed in b]):
            continue
        test = difference_test(suite.final.test, [a[x] for x in seeds], [b[x] for x in seeds])
        if test.p is not None and test.p < suite.alpha and abs(test.difference) > case.margin(c):
            yield f"{case.title(c)} gains {plain(test.difference, '+.3g')} more, margin {case.margin(c):g}"


@check("still improving", "note", "Read the verdicts as being about short training; add a longer horizon.")
def still_improving(case: Analyses) -> Iterator[tuple[str, str]]:
    """The validation metric of an arm improves by more than the margin in the last third, where the rate falls to 0."""
    curves = _curves(case)
    for arena, plan in case.suite.arenas.items():
        gains = {arm.optimizer: _gains(curves[arena, arm.optimizer]) for arm in case.results.of(arena)}
        means = {name: fmean(of_arm.values()) for name, of_arm in gains.items() if of_arm}
        if more := [f"{name} {plain(mean, '.2g')}" for name, mean in means.items() if mean > plan.margin]:
            yield arena, f"{', '.join(more)} (margin {plan.margin:g})"


@check("speed-up beyond the horizons", "note", "Report the bound, or add horizons.")
def beyond_horizons(case: Analyses) -> Iterator[str]:
    """The reference was not trained long enough, or not short enough, to reach what an arm reaches."""
    return (f"{x.arena} {x.optimizer} {x.beyond} {x.reached:.3g}" for x in case.of(speedups) if x.beyond)


@check("too few sizes", "warn", "Add sizes, horizons or seeds to the ladder, or claim nothing about size.")
def too_few_sizes(case: Analyses) -> Iterator[tuple[str, str]]:
    """The sizes, horizons or seeds of a ladder, or its unfinished trials, leave the trend of a speed-up unknown."""
    return ((row.note, f"{row.arena} {row.optimizer}") for row in case.of(size_trends) if row.trend is None)


@check("law does not hold", "warn", "Read the trend as that of the measured sizes; add a larger size.")
def law_does_not_hold(case: Analyses) -> Iterator[tuple[str, str]]:
    """A law errs at the largest size, if left out, by more than the margin, or anywhere by twice what seeds differ."""
    for law in case.of(ladder_laws):
        largest = max(case.suite.ladders[law.arena], key=lambda name: case.suite.arenas[name].steps)
        loss = fmean(case.results.arm(largest, law.reference).scores(law.metric))
        error, margin = (law.left_out_error or 0.0) * loss, case.suite.arenas[largest].margin
        faults = [f"errs by {plain(error, '.2g')} at the largest size, margin {margin:g}"] if error > margin else []
        if law.misfit is not None and law.misfit >= MISFIT:
            faults.append(f"misfit {plain(law.misfit, '.2g')}")
        if faults:
            yield law.arena, ", ".join(faults)


@check(
    "horizon not tuned", "warn", "Leave out `tuning_arena` and fixed rates: each size and horizon needs its own search."
)
def horizon_not_tuned(case: Analyses) -> Iterator[tuple[str, str]]:
    """A size, schedule or horizon of an arena has the learning rate that was selected for another, or a fixed one."""
    for arm in case.results.arms:
        plan = case.suite.arenas[arm.arena]
        if plan.ladder_point and plan.tuning_arena:
            yield arm.arena, f"tuned on {plan.tuning_arena}"
        elif plan.ladder_point and not arm.tuned:
            yield arm.arena, f"{arm.optimizer} has a fixed rate"


def _pairs(case: Analyses) -> Iterator[tuple[Comparison, SeedCurves, SeedCurves]]:
    """The comparisons whose arms both have finished seeds, with their curves."""
    curves = _curves(case)
    for c in case.comparisons:
        ours, theirs = (curves[c.arena, name] for name in (c.optimizer, c.baseline))
        if ours and theirs:
            yield c, ours, theirs


def _curves(case: Analyses) -> dict[tuple[str, str], SeedCurves]:
    """The curves of the finished seeds of every arm, at the steps in which all of its arena were evaluated."""
    found: dict[tuple[str, str], SeedCurves] = {}
    for arena, plan in case.suite.arenas.items():
        arms = {
            arm.optimizer: {run.seed: run.curve(plan.metric) for run in arm.final if run.status == "finished"}
            for arm in case.results.of(arena)
        }
        steps = [set(curve) for seeds in arms.values() for curve in seeds.values()]
        shared, sign = set.intersection(*steps) if steps else set(), case.suite.sign(arena)
        for name, seeds in arms.items():
            found[arena, name] = {seed: {x: sign * curve[x] for x in shared} for seed, curve in seeds.items()}
    return found


def _gains(curves: SeedCurves) -> dict[int, float]:
    """The gain of each seed in the last third, since the last evaluation before it."""
    steps = sorted(next(iter(curves.values()), ()))
    before = [step for step in steps if step <= 2 * steps[-1] / 3]
    return {seed: curve[steps[-1]] - curve[before[-1]] for seed, curve in curves.items()} if before else {}

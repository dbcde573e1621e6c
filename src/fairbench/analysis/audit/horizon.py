"""Checks whether the result depends on the length of training. Differences within the margin never count."""

from collections.abc import Iterator
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
"""The misfit from which on a law is flagged: its residuals are then twice as large as seeds explain."""
SeedCurves = dict[int, dict[int, float]]
"""The validation metric by seed and step, with the sign that makes higher better."""


@check(
    "flip between horizons", "warn", "Claim nothing beyond the horizon; add a longer one to see which verdict stays."
)
def flips_between_horizons(case: Analyses) -> Iterator[str]:
    """The verdict, or the order by more than the margin, differs between the last two horizons of a task."""
    comparisons = {c.pair: c for c in case.comparisons}
    longer = _last_horizons(case.suite)
    for (arena, optimizer, baseline), short in comparisons.items():
        long = comparisons.get((longer.get(arena, ""), optimizer, baseline))
        if long is None:
            continue  # the task has no longer horizon
        decided = short.verdict in DECIDED and long.verdict in DECIDED
        contradict = decided and short.verdict != long.verdict
        if contradict or _flip(short.gain, long.gain, case.margin(long)):
            yield f"{case.title(short)} {_in_words(short)}, {case.title(long)} {_in_words(long)}"


def _last_horizons(suite: Suite) -> dict[str, str]:
    """For each task with two or more horizons, the arena of the last horizon, by the arena of the horizon before."""
    by_length = sorted(suite.arenas, key=lambda name: suite.arenas[name].steps)
    longer = {}
    for names in suite.alike(by_length, *LENGTH):
        arena_of_horizon = {suite.arenas[name].steps: name for name in names}
        horizons = [*arena_of_horizon.values()]
        if len(horizons) > 1:
            longer[horizons[-2]] = horizons[-1]
    return longer


def _flip(before: float | None, after: float | None, margin: float) -> bool:
    """Whether a difference changes its sign, and exceeds the margin on at least one side."""
    if before is None or after is None:
        return False
    return before * after < 0 and max(abs(before), abs(after)) > margin


def _in_words(c: Comparison) -> str:
    """The verdict of a comparison with its gain."""
    if c.gain is None:
        return c.verdict
    return f"{c.verdict} ({plain(c.gain, '+.3g')})"


@check("order not settled", "warn", "Take the order of these two as open; train longer (`--steps`).")
def order_not_settled(case: Analyses) -> Iterator[str]:
    """Between the last two validation evaluations two means change their order, and differ by more than the margin."""
    for c, ours, theirs in _pairs(case):
        steps = sorted(next(iter(ours.values())))
        if len(steps) < 2:
            continue
        before, after = steps[-2:]
        gap_before = _mean_at(ours, before) - _mean_at(theirs, before)
        gap_after = _mean_at(ours, after) - _mean_at(theirs, after)
        if _flip(gap_before, gap_after, case.margin(c)):
            gaps = f"{plain(gap_before, '+.3g')} at step {before}, {plain(gap_after, '+.3g')} at step {after}"
            yield f"{case.title(c)} {gaps}"


def _mean_at(curves: SeedCurves, step: int) -> float:
    """The mean of some curves at a step."""
    return fmean(curve[step] for curve in curves.values())


@check("gap still changes", "warn", "Claim nothing about longer training; train longer (`--steps`), and compare again.")
def gap_changes(case: Analyses) -> Iterator[tuple[str, str]]:
    """In the last third of training one of two arms gains significantly more, and by more than the margin."""
    suite = case.suite
    for c, ours, theirs in _pairs(case):
        our_gains = _gains(ours)
        their_gains = _gains(theirs)
        seeds = [seed for seed in our_gains if seed in their_gains]
        if not seeds:
            continue  # the arms share no seed, or were evaluated only in the last third
        test = difference_test(
            suite.final.test,
            [our_gains[seed] for seed in seeds],
            [their_gains[seed] for seed in seeds],
        )
        significant = test.p is not None and test.p < suite.alpha
        if significant and abs(test.difference) > case.margin(c):
            yield c.arena, f"{_change_in_words(c, test.difference)} (margin {case.margin(c):g})"


def _change_in_words(c: Comparison, difference: float) -> str:
    """Which of two arms improved more in the last third, and by how much more."""
    more = c.optimizer
    less = c.baseline
    if difference < 0:
        more = c.baseline
        less = c.optimizer
    return f"in the last third {more} improved by {plain(abs(difference), '.3g')} more than {less}"


@check("still improving", "note", "Read the verdicts as being about short training, or train longer (`--steps`).")
def still_improving(case: Analyses) -> Iterator[tuple[str, str]]:
    """In the last third an arm's validation metric improves by more than the margin, and does so to the end."""
    curves = _curves(case)
    for arena, plan in case.suite.arenas.items():
        improving = []
        for arm in case.results.of(arena):
            gains = _gains(curves[arena, arm.optimizer])
            if not gains:
                continue
            mean = fmean(gains.values())
            if min(mean, _at_last_pace(curves[arena, arm.optimizer])) > plan.margin:
                improving.append(f"{arm.optimizer} by {plain(mean, '.2g')}")
        if improving:
            yield arena, f"in the last third {', '.join(improving)} (margin {plan.margin:g})"


@check("speed-up beyond the horizons", "note", "Report the bound, or add horizons.")
def beyond_horizons(case: Analyses) -> Iterator[str]:
    """The reference was not trained long enough, or not short enough, to reach what an arm reaches."""
    for row in case.of(speedups):
        if row.beyond:
            yield f"{row.arena} {row.optimizer} {row.beyond} {row.reached:.3g}"


@check("too few sizes", "warn", "Add sizes, horizons or seeds to the ladder, or claim nothing about size.")
def too_few_sizes(case: Analyses) -> Iterator[tuple[str, str]]:
    """The sizes, horizons or seeds of a ladder, or its unfinished trials, leave the trend of a speed-up unknown."""
    for row in case.of(size_trends):
        if row.trend is None:
            yield row.note, f"{row.arena} {row.optimizer}"


@check("law does not hold", "warn", "Read the trend as that of the measured sizes; add a larger size.")
def law_does_not_hold(case: Analyses) -> Iterator[tuple[str, str]]:
    """A law errs by more than the margin at the largest size, if that is left out, or by twice what seeds explain."""
    for law in case.of(ladder_laws):
        largest = max(case.suite.ladders[law.arena], key=lambda name: case.suite.arenas[name].steps)
        margin = case.suite.arenas[largest].margin
        loss = fmean(case.results.arm(largest, law.reference).scores(law.metric))
        error = (law.left_out_error or 0.0) * loss
        faults = []
        if error > margin:
            faults.append(f"errs by {plain(error, '.2g')} at the largest size, margin {margin:g}")
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
    """Each comparison whose arms both have finished seeds, with the curves of the optimizer and of the baseline."""
    curves = _curves(case)
    for c in case.comparisons:
        ours = curves[c.arena, c.optimizer]
        theirs = curves[c.arena, c.baseline]
        if ours and theirs:
            yield c, ours, theirs


def _curves(case: Analyses) -> dict[tuple[str, str], SeedCurves]:
    """The curves of the finished seeds of every arm, by arena and optimizer.

    A curve has only the steps at which all finished trials of its arena were evaluated.
    """
    curves_of_arms: dict[tuple[str, str], SeedCurves] = {}
    for arena, plan in case.suite.arenas.items():
        sign = case.suite.sign(arena)
        arms: dict[str, SeedCurves] = {}
        all_curves: list[dict[int, float]] = []
        for arm in case.results.of(arena):
            finished = [run for run in arm.final if run.status == "finished"]
            arms[arm.optimizer] = {run.seed: run.curve(plan.metric) for run in finished}
            all_curves += arms[arm.optimizer].values()
        shared: set[int] = set()
        if all_curves:
            shared = set.intersection(*map(set, all_curves))
        for name, curves in arms.items():
            curves_of_arms[arena, name] = {seed: _signed(curve, shared, sign) for seed, curve in curves.items()}
    return curves_of_arms


def _signed(curve: dict[int, float], steps: set[int], sign: float) -> dict[int, float]:
    """The values of a curve at some steps, times a sign."""
    return {step: sign * curve[step] for step in steps}


def _gains(curves: SeedCurves, part: int = 3) -> dict[int, float]:
    """The gain of each seed in the last third of training, or in another last part, see `_span`."""
    span = _span(curves, part)
    if not span:
        return {}
    start, end = span
    return {seed: curve[end] - curve[start] for seed, curve in curves.items()}


def _at_last_pace(curves: SeedCurves) -> float:
    """The mean gain in a third of the training at the pace of its last sixth."""
    start, end = _span(curves, part=6)
    pace = fmean(_gains(curves, part=6).values()) / (end - start)
    return pace * end / 3


def _span(curves: SeedCurves, part: int) -> tuple[int, ...]:
    """The last evaluation before the last third of training, say, and the last one of all; empty without both.

    Args:
        curves: the curves of an arm.
        part: 3 for the last third, 6 for the last sixth.
    """
    steps = sorted(next(iter(curves.values()), ()))
    before = [step for step in steps[:-1] if part * step <= (part - 1) * steps[-1]]
    if not before:
        return ()
    return before[-1], steps[-1]

"""The time, disk space and statistical power of a study before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean, variance

from fairbench.analysis.comparison.interim_analyses import design_of
from fairbench.analysis.comparison.size_trends import detectable_trends
from fairbench.analysis.results import Results, collect
from fairbench.analysis.statistics.power import minimum_detectable_effect
from fairbench.study.plan import Lookup
from fairbench.study.planned_trial import typical_trial
from fairbench.study.preflight_result import Preflight, trial_seconds
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.suites.schema import Suite

RECORD_BYTES = 2500
"""The approximate bytes of a record without its spec and its values."""
VALUE_BYTES = 90
"""The approximate bytes of each value of a record, in the record and in `steps.csv` together."""
FIGURE_BYTES = 430_000
"""The bytes of the figures and the page for each arena, as in the suite `mini`."""

EFFECTS = (0.0, 1.0, 2.0, 3.0)
"""Differences of interest, in the standard deviations of the suite's test, see `TESTS`."""


@dataclass(frozen=True)
class Forecast:
    """The trials, time, disk space and statistical power of an arena, all its arms together.

    Attributes:
        sweep_trials: trials of stage 1.
        final_trials: trials of stage 2 until the first interim analysis, which is the only one of most studies.
        more_final_trials: trials that may be added, until the last interim analysis and while the best
            setting lies at the edge.
        seconds: of training and evaluation, one trial at a time, without trials that may be added.
        most_seconds: the same with all that may be added.
        disk: bytes of records, tables, figures and page, with all that may be added.
        effect: the smallest difference that the test detects with 80% power at the strictest step of Holm's
            correction, in standard deviations, see `minimum_detectable_effect`. None if alpha cannot be reached.
            A verdict can need a larger difference, since it allows for a finer search and must hold with other
            settings. It can need a smaller one where comparisons share a variance.
        spread: the standard deviation of the primary metric in which `effect` is measured. For the paired test it is
            that of the differences of two arms, for Welch's test that of an arm between seeds. It is pooled over
            the samples that have records; None where none has.
        trend: the smallest trend of a speed-up over size that the arena's ladder finds with 90% power, by the seeds
            that have records. None without a ladder, and while records do not determine its law.
        trend_spread: the standard deviation between seeds at which the ladder finds the suite's `trend_margin`. It is
            a share of the fall of the loss when the steps double, for exponents of 0.35. None without a ladder.
    """

    arena: str
    sweep_trials: int
    final_trials: int
    more_final_trials: int
    seconds: float
    most_seconds: float
    disk: float
    effect: float | None
    spread: float | None
    trend: float | None
    trend_spread: float | None


def forecast(preflight: Preflight, lookup: Lookup) -> list[Forecast]:
    """The forecast of each arena. Its spread is estimated from the seeds that already have a record."""
    results = collect(preflight.study, lookup)
    trends = detectable_trends(results)
    forecasts = []
    for arena in preflight.study.suite.arenas:
        trend, trend_spread = trends.get(arena, (None, None))
        forecasts.append(_forecast(preflight, arena, results, trend, trend_spread))
    return forecasts


def _forecast(
    preflight: Preflight, arena: str, results: Results, trend: float | None, trend_spread: float | None
) -> Forecast:
    """The forecast of an arena; `Forecast` explains the two trends."""
    study = preflight.study
    suite = study.suite
    design = design_of(suite)
    sweep_trials = 0
    usual_finals = 0
    most_finals = 0
    usual_seconds = 0.0
    most_seconds = 0.0
    for name in suite.optimizers_of(arena):
        seconds = trial_seconds(preflight, arena, name)
        sweeps = _sweep_trials(study, arena, name)
        usual = _final_trials(study, arena, name, seeds=design.interim_analyses[0], with_added=False)
        most = _final_trials(study, arena, name, seeds=design.interim_analyses[-1], with_added=True)
        sweep_trials += sweeps
        usual_finals += usual
        most_finals += most
        usual_seconds += sweeps * seconds["sweep"] + usual * seconds["final"]
        most_seconds += sweeps * seconds["sweep"] + most * seconds["final"]
    sweep_bytes = _mean_trial_bytes(study, arena, "sweep")
    final_bytes = _mean_trial_bytes(study, arena, "final")
    strictest = suite.alpha / max(len(suite.compared), 1)  # of Holm's correction
    level = design.shares[-1] * strictest  # of the last interim analysis, which has all seeds
    return Forecast(
        arena=arena,
        sweep_trials=sweep_trials,
        final_trials=usual_finals,
        more_final_trials=most_finals - usual_finals,
        seconds=usual_seconds,
        most_seconds=most_seconds,
        disk=sweep_trials * sweep_bytes + most_finals * final_bytes + FIGURE_BYTES,
        effect=minimum_detectable_effect(len(suite.final.seeds), level, suite.final.test),
        spread=_spread(results, arena),
        trend=trend,
        trend_spread=trend_spread,
    )


def _sweep_trials(study: ResolvedSuite, arena: str, name: str) -> int:
    """The number of trials of stage 1 of an arm; 0 if its arena is tuned on another one."""
    suite = study.suite
    if suite.tuning_arena(arena) != arena or not study.searched(name):
        return 0
    return len(suite.sweep.seeds) * study.search(name).size


def _final_trials(study: ResolvedSuite, arena: str, name: str, seeds: int, *, with_added: bool) -> int:
    """The number of trials of stage 2 of an arm.

    Args:
        study: the study.
        arena, name: the arena and the optimizer or variant of the arm.
        seeds: the seeds of the arm.
        with_added: whether to count the trials that may be added while the best setting lies at the edge.
    """
    suite = study.suite
    if suite.tuning_arena(arena) != arena:
        return seeds  # one setting, which is selected in the other arena
    return study.search(name).final_trials(suite.final, seeds, with_added)


def expected_seeds(suite: Suite) -> dict[float, float]:
    """The expected number of seeds of an arm, for each difference from the baseline in `EFFECTS`.

    The level is the one of the strictest step of Holm's correction.
    """
    strictest = suite.alpha / max(len(suite.compared), 1)
    design = design_of(suite)
    return {effect: design.expected_seeds(effect, strictest, suite.final.test) for effect in EFFECTS}


def _mean_trial_bytes(study: ResolvedSuite, arena: str, stage: str) -> float:
    """The bytes of a trial of a stage, a mean over the optimizers of an arena."""
    return fmean(_trial_bytes(study, arena, name, stage) for name in study.suite.optimizers_of(arena))


def _trial_bytes(study: ResolvedSuite, arena: str, optimizer: str, stage: str) -> int:
    """The bytes of a trial on disk: its record and its rows in `steps.csv`, without reports of its mechanism."""
    spec = typical_trial(study, arena, optimizer, stage)
    losses = ceil(spec.training.steps / spec.training.log_every)
    values = losses + spec.training.evaluations * len(study.suite.facts(arena).metrics)
    return RECORD_BYTES + len(spec.text) + VALUE_BYTES * values


def _spread(results: Results, arena: str) -> float | None:
    """The standard deviation for the test of the suite, pooled over samples; None without a sample of two seeds.

    A sample has the values of an arm, or for the paired test the differences of a pair of arms.
    """
    suite = results.study.suite
    metric = suite.arenas[arena].metric
    scores = {arm.optimizer: arm.scores_by_seed(metric) for arm in results.of(arena)}
    samples = []
    if suite.final.test == "welch":
        samples = [list(arm_scores.values()) for arm_scores in scores.values()]
    else:
        for first, second in suite.pairs:
            if first in scores and second in scores:
                samples.append(_differences(scores[first], scores[second]))
    samples = [sample for sample in samples if len(sample) > 1]
    if not samples:
        return None
    degrees_of_freedom = sum(len(sample) - 1 for sample in samples)
    squares = sum((len(sample) - 1) * variance(sample) for sample in samples)
    return sqrt(squares / degrees_of_freedom)


def _differences(first: Mapping[int, float], second: Mapping[int, float]) -> list[float]:
    """The differences of two arms, one for each seed that both have."""
    return [first[seed] - second[seed] for seed in first.keys() & second.keys()]

"""The time, disk space and statistical power of a study before it runs."""

from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean, variance

from fairbench.analysis.comparison.looks import design_of
from fairbench.analysis.comparison.size_trends import detectable_trends
from fairbench.analysis.results import Results, collect
from fairbench.analysis.statistics.power import minimum_detectable_effect
from fairbench.study.plan import Lookup, ResolvedSuite, typical_trial
from fairbench.study.preflight_result import Preflight, trial_seconds
from fairbench.suites.schema import Suite

RECORD_BYTES, VALUE_BYTES = 2500, 90
"""Bytes of a record without its spec and its values, and of each of these, there and in `steps.csv`; approximately."""
FIGURE_BYTES = 430_000
"""Bytes of the figures and the page, for each arena, as in the suite `mini`."""

EFFECTS = (0.0, 1.0, 2.0, 3.0)
"""Differences of interest, in the standard deviations of the suite's test, see `TESTS`."""


@dataclass(frozen=True)
class Forecast:
    """The trials, time, disk space and statistical power of an arena, all its arms together.

    Attributes:
        sweep_trials: trials of stage 1.
        final_trials: trials of stage 2 until the first look, which is the only one of most studies.
        more_final_trials: trials that may be added, until the last look and while the best setting lies at the edge.
        seconds: of training and evaluation, one trial at a time, without trials that may be added.
        most_seconds: the same with all that may be added.
        disk: bytes of records, tables, figures and page, with all that may be added.
        effect: the smallest difference that is detected with 80% power at the strictest step of Holm's correction, in
            standard deviations, see `minimum_detectable_effect`; None if alpha cannot be reached.
        spread: this standard deviation of the primary metric: that of a pair's difference between two arms, or with
            Welch's test that of an arm between seeds, pooled over what has records; None where nothing has.
        trend: of an arena on a ladder, the smallest trend of a speed-up over size that the ladder finds with 90% power,
            by the seeds that have records; None without a ladder, and while records do not determine its law.
        trend_spread: the standard deviation between seeds with which it finds the suite's `trend_margin`, as a share of
            what the loss falls when the steps double, for exponents of 0.35; None without a ladder.
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
    """The forecast of each arena; the seeds with a record give the spread."""
    results = collect(preflight.study, lookup)
    trends = detectable_trends(results)
    return [_forecast(preflight, x, results, *trends.get(x, (None, None))) for x in preflight.study.suite.arenas]


def _forecast(
    preflight: Preflight, arena: str, results: Results, trend: float | None, trend_spread: float | None
) -> Forecast:
    study, seconds = preflight.study, trial_seconds(preflight, arena)
    suite = study.suite
    names = suite.optimizers_of(arena)
    searches = [study.search(x) for x in names if suite.tuning_arena(arena) == arena]
    design, twins = design_of(suite), len(names) - len(searches)
    sweeps = len(suite.sweep.seeds) * sum(study.search(x).size for x in names if study.tuned(x) and searches)
    usual_finals, most_finals = (
        sum(x.final_trials(suite.final, seeds, added) for x in searches) + twins * seeds
        for seeds, added in ((design.looks[0], False), (design.looks[-1], True))
    )
    usual = sweeps * seconds["sweep"] + usual_finals * seconds["final"]
    sizes = {stage: fmean(_trial_bytes(study, arena, x, stage) for x in names) for stage in seconds}
    family = len(suite.compared)
    return Forecast(
        arena=arena,
        sweep_trials=sweeps,
        final_trials=usual_finals,
        more_final_trials=most_finals - usual_finals,
        seconds=usual,
        most_seconds=usual + (most_finals - usual_finals) * seconds["final"],
        disk=sweeps * sizes["sweep"] + most_finals * sizes["final"] + FIGURE_BYTES,
        effect=minimum_detectable_effect(
            len(suite.final.seeds), design.shares[-1] * (suite.alpha / max(family, 1)), suite.final.test
        ),
        spread=_spread(results, arena),
        trend=trend,
        trend_spread=trend_spread,
    )


def expected_seeds(suite: Suite) -> dict[float, float]:
    """The expected seeds of an arm at differences of interest, at the strictest step of Holm's correction.

    A difference is one from the baseline, in the standard deviations of the suite's test.
    """
    level = suite.alpha / max(len(suite.compared), 1)
    return {effect: design_of(suite).expected_seeds(effect, level, suite.final.test) for effect in EFFECTS}


def _trial_bytes(study: ResolvedSuite, arena: str, optimizer: str, stage: str) -> int:
    """Bytes of a trial on disk, without what its mechanism reports: its record, and its rows in `steps.csv`."""
    spec = typical_trial(study, arena, optimizer, stage)
    losses = ceil(spec.training.steps / spec.training.log_every)
    values = losses + spec.training.evaluations * len(study.suite.facts(arena).metrics)
    return RECORD_BYTES + len(spec.text) + VALUE_BYTES * values


def _spread(results: Results, arena: str) -> float | None:
    """The standard deviation that the test of the suite has, pooled over the samples with at least two seeds."""
    suite = results.study.suite
    metric = suite.arenas[arena].metric
    samples = {
        arm.optimizer: {run.seed: x for run in arm.final if (x := run.metric("test", metric)) is not None}
        for arm in results.of(arena)
    }
    if suite.final.test == "welch":
        known = [[*of_arm.values()] for of_arm in samples.values()]
    else:
        pairs = [pair for pair in suite.pairs if {*pair} <= samples.keys()]
        known = [[samples[a][seed] - samples[b][seed] for seed in samples[a].keys() & samples[b]] for a, b in pairs]
    known = [sample for sample in known if len(sample) > 1]
    freedom = sum(len(sample) - 1 for sample in known)
    return sqrt(sum((len(x) - 1) * variance(x) for x in known) / freedom) if known else None

"""A plan for a terminal: the trials of a study, the time that they take, and what they can detect."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Group
from rich.text import Text

from fairbench.analysis.forecast import Forecast, expected_seeds
from fairbench.common.console import unwrapped
from fairbench.common.formatting import duration, percent, plain, plural
from fairbench.study.history import History
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.suites.schema import Suite
from fairbench.suites.search import KEPT
from fairbench.suites.stages import TESTS, Final

VARYING = {"paired": "the differences of pairs", "welch": "seeds"}
"""What varies by chance in each test of a suite, in words."""


def plan_view(
    study: ResolvedSuite, forecasts: Sequence[Forecast], workers: int, history: History, directory: Path
) -> Group:
    """The trials of a study, the time and disk space that they take, and the differences that they can detect."""
    suite = study.suite
    lines = [_arena_line(study, forecast) for forecast in forecasts]
    for ladder, arenas in suite.ladders.items():
        first = next(forecast for forecast in forecasts if forecast.arena in arenas)
        lines.append(f"ladder {ladder}: {_finds(first, suite.trend_margin)}")
    untuned = [name for name in suite.optimizers if not study.tuned(name)]
    if untuned:
        lines.append(f"untuned, without sweep trials: {', '.join(untuned)}")
    lines.append(_compared(suite))
    if suite.final.interim_analyses:
        lines.append(_expected(suite))
    lines.append(_needs(forecasts, workers))
    frozen = []
    if history.frozen:
        frozen.append(unwrapped(f"frozen in {directory}: sha256 {history.frozen}"))
    return Group(*lines, *_late_changes(history), *frozen)


def _arena_line(study: ResolvedSuite, forecast: Forecast) -> str:
    """A text on the trials in an arena, and on the differences that they can detect."""
    suite = study.suite
    arena = suite.arenas[forecast.arena]
    arms = plural(len(suite.optimizers_of(forecast.arena)), suite.noun)
    measure = ""
    if suite.facts(forecast.arena).kind == "program":
        measure = "; fairbench noise measures it"
    return (
        f"{forecast.arena}: {arms}, each {_trials_of_arm(study, forecast)}; {arena.metric}, margin {arena.margin:g}\n"
        f"  {_detects(forecast, arena.margin, suite.final.test, measure)}"
    )


def _trials_of_arm(study: ResolvedSuite, forecast: Forecast) -> str:
    """The trials of each arm of an arena, in words."""
    suite = study.suite
    arena = suite.arenas[forecast.arena]
    names = suite.optimizers_of(forecast.arena)
    searched_arms = sum(study.searched(name) for name in names)
    sweep_trials = forecast.sweep_trials // max(searched_arms, 1)
    final_trials = forecast.final_trials // len(names)
    sweep = f"{sweep_trials} sweep trials of {arena.sweep_steps} steps"
    final = f"{final_trials} final ones of {arena.steps}"
    if arena.model.get("own_length"):
        sweep = f"{sweep_trials} sweep trials"
        final = f"{final_trials} final ones, as long as the program trains"
    if searched_arms == len(names):
        final += _settings_of_finals(suite.final, final_trials)
    if forecast.more_final_trials >= len(names):
        final += f" (at most {forecast.more_final_trials // len(names)} more)"
    return f"{sweep} and {final}"


def _settings_of_finals(final: Final, trials: int) -> str:
    """Which settings have which seeds among the final trials of an arm, in words; empty if one setting has them all."""
    seeds = len(final.seeds)
    if final.interim_analyses or trials <= seeds:
        return ""
    first_seeds = min(final.halve_after, seeds)
    later_seeds = seeds - first_seeds
    settings = (trials - KEPT * later_seeds) // first_seeds
    words = f": {plural(first_seeds, 'seed')} for {settings} settings"
    if later_seeds:
        words += f", the other {later_seeds} for the best {KEPT}"
    return words


def _compared(suite: Suite) -> str:
    """A text with the question of a suite and the number of its comparisons."""
    if not suite.question:
        return "nothing is compared"
    return f"{suite.question}: {plural(len(suite.compared), 'comparison')} at {suite.alpha:g}"


def _expected(suite: Suite) -> str:
    """A text on the expected number of seeds of an arm, since an interim analysis may end it early."""
    seeds_at = [f"{seeds:.1f} at {effect:g}" for effect, seeds in expected_seeds(suite).items()]
    unit = f"standard deviations {TESTS[suite.final.test]}"
    expected = f"expected, by the true difference in {unit}: {', '.join(seeds_at)}"
    return f"an arm has {suite.final.in_words}; {expected}"


def _late_changes(history: History) -> Iterator[Text]:
    """A line on each change of the plan after the first final trials."""
    for plan, differing in history.late:
        changes = "; ".join(map(str, differing))
        yield Text(f"changed after {plan.final_trials} final trials: {changes}", "yellow")


def _needs(forecasts: Sequence[Forecast], workers: int) -> str:
    """A text on the number of trials, and on the time and disk space that they need."""
    trials = sum(forecast.sweep_trials + forecast.final_trials for forecast in forecasts)
    more = sum(forecast.more_final_trials for forecast in forecasts)
    usual_s = sum(forecast.seconds for forecast in forecasts) / workers
    most_s = sum(forecast.most_seconds for forecast in forecasts) / workers
    megabytes = sum(forecast.disk for forecast in forecasts) / 1e6
    most_trials = ""
    most_time = ""
    if more:
        most_trials = f", at most {more} more"
        most_time = f", at most {duration(most_s)}"
    return (
        f"{plural(trials, 'trial')}{most_trials}; about {duration(usual_s)} of training and evaluation{most_time}, "
        f"with {workers} at a time; {megabytes:.1f} MB on disk"
    )


def _detects(forecast: Forecast, margin: float, test: str, measure: str) -> str:
    """A text on the differences that an arena can detect, in units of the metric if there are records.

    `measure` says how the noise can be measured; it may be empty.
    """
    if forecast.effect is None:
        return "cannot reach alpha: with fewer than 2 seeds there is no test"
    if not forecast.spread:  # no seeds yet, or none that differ
        largest = plain(margin / forecast.effect, ".2g")
        varying = VARYING[test]
        return (
            f"the test finds a difference as large as the margin ({margin:g}) in 80% of studies if the standard "
            f"deviation of {varying} is at most {largest}{measure}"
        )
    difference = plain(forecast.effect * forecast.spread, ".2g")
    found = f"the test finds a difference of {difference} in 80% of studies, by the seeds that have a record"
    if forecast.effect * forecast.spread <= margin:
        return found
    return f"{found}; that exceeds the margin ({margin:g})"


def _finds(forecast: Forecast, margin: float) -> str:
    """A text on the trend over size that a ladder can find."""
    if forecast.trend_spread is None:
        return "too few sizes, horizons or seeds for a trend over size"
    if forecast.trend is not None:
        trend = plain(forecast.trend, ".2g")
        return f"finds a trend over size of {trend} with 90% power, by the seeds that have a record"
    share = percent(forecast.trend_spread)
    return (
        f"finds a trend over size of {margin:g} with 90% power if seeds differ by {share} of what twice the steps gain"
    )

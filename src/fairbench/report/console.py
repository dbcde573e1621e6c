"""Plans, verdicts, flags and previews for a terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.text import Text

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.forecast import Forecast, expected_seeds
from fairbench.analysis.published.publication import PublishedComparison
from fairbench.common.console import text_table, whole
from fairbench.common.formatting import NONE, column_of_intervals, duration, number, p_value, percent, plain, plural
from fairbench.report.sections.verdict_grid import naming, verdict_text
from fairbench.study.history import History
from fairbench.study.plan import ResolvedSuite
from fairbench.suites.stages import TESTS


def verdicts_view(comparisons: Sequence[Comparison], alpha: float, notes: Sequence[str]) -> Group:
    """The comparisons of a user's table, of which a narrow terminal leaves out columns, and how it was judged."""
    sides, rows = ["arena", *naming(comparisons)], []
    gains = column_of_intervals([(c.gain, c.ci_low, c.ci_high) for c in comparisons])
    for c, gain_text in zip(comparisons, gains, strict=True):
        gain, _, ends = gain_text.partition(" ")
        named = [getattr(c, side) for side in sides]
        rows.append([*named, verdict_text(c), gain, p_value(c.p_holm), ends or NONE])
    titles = [*((name, False) for name in (*sides, "verdict")), *((x, True) for x in ("gain", "Holm p", "95% CI"))]
    wins = sum(c.is_win for c in comparisons)
    names = {"paired": "paired test by seed", "welch": "Welch's test of the means", "one-sample": "t-test of the mean"}
    tests = " or ".join(names[x] for x in dict.fromkeys(c.test for c in comparisons))
    ours = " or ".join(dict.fromkeys(c.optimizer for c in comparisons))
    end = "; nothing can be equivalent without --margin." if any(c.margin is None for c in comparisons) else "."
    return Group(
        text_table(titles, rows),
        *(f"{note}." for note in notes),
        f"{ours} is better in {wins} of {plural(len(comparisons), 'comparison')} at {alpha:g}: {tests}, Holm's "
        f"correction{end}",
    )


def publication_view(judged: Sequence[PublishedComparison], alpha: float) -> Group:
    """The comparisons of a publication, and what the columns mean; alpha is the family-wise error rate."""
    numbers = (judged[0].comparison.optimizer, "baseline", "g", "p", "Holm p", "printed p", "Holm p")
    titles = [*((name, False) for name in ("arena", "metric", "baseline", "verdict")), *((x, True) for x in numbers)]
    rows = []
    for row in judged:
        c = row.comparison
        measured = number(c.mean_optimizer), number(c.mean_baseline), number(c.hedges_g, 2)
        tested = [p_value(p) for p in (c.p, c.p_holm, row.printed_p, row.printed_p_holm)]
        rows.append([c.arena, c.metric, c.baseline, verdict_text(c), *measured, *tested])
    wins = sum(row.comparison.is_win for row in judged)
    return Group(
        text_table(titles, rows),
        f"{wins} of {len(judged)} better at {alpha:g}. p: Welch's test of the printed means and standard deviations of "
        f"{judged[0].comparison.seeds} seeds; Holm p: corrected for these {len(judged)} comparisons.",
    )


def plan_view(
    study: ResolvedSuite, forecasts: Sequence[Forecast], workers: int, history: History, directory: Path
) -> Group:
    """The trials of a study, the time and disk space that they take, and the differences that they can detect."""
    suite, lines = study.suite, list[str]()
    for f in forecasts:
        arena, names = suite.arenas[f.arena], suite.optimizers_of(f.arena)
        arms, searched = len(names), max(sum(map(study.tuned, names)), 1)
        at_most = f" (at most {f.more_final_trials // arms} more)" if f.more_final_trials >= arms else ""
        lines.append(
            f"{f.arena}: {plural(arms, 'optimizer')}, each {f.sweep_trials // searched} sweep trials of "
            f"{arena.sweep_steps} steps and {f.final_trials // arms} final ones of {arena.steps}{at_most}; "
            f"{arena.metric}, margin {arena.margin:g}\n"
            f"  {_detects(f, arena.margin, suite.final.test)}"
        )
    for ladder, arenas in suite.ladders.items():
        first = next(f for f in forecasts if f.arena in arenas)
        lines.append(f"ladder {ladder}: {_finds(first, suite.trend_margin)}")
    if untuned := [name for name in suite.optimizers if not study.tuned(name)]:
        lines.append(f"untuned, without sweep trials: {', '.join(untuned)}")
    compared = plural(len(suite.compared), "comparison")
    lines.append(f"{suite.question}: {compared} at {suite.alpha:g}" if suite.question else "nothing is compared")
    if suite.final.looks:
        of_each = (f"{seeds:.1f} at {effect:g}" for effect, seeds in expected_seeds(suite).items())
        unit = f"standard deviations {TESTS[suite.final.test]}"
        expected = f"expected, by the true difference in {unit}: {', '.join(of_each)}"
        lines.append(f"an arm has {suite.final.in_words}; {expected}")
    lines.append(_needs(forecasts, workers))
    changed = (
        Text(f"changed after {plan.final_trials} final trials: {'; '.join(map(str, differing))}", "yellow")
        for plan, differing in history.late
    )
    frozen = [whole(f"frozen in {directory}: sha256 {history.frozen}")] if history.frozen else []
    return Group(*lines, *changed, *frozen)


def _needs(forecasts: Sequence[Forecast], workers: int) -> str:
    """The trials, and the time and disk space that they need."""
    trials = sum(f.sweep_trials + f.final_trials for f in forecasts)
    more = sum(f.more_final_trials for f in forecasts)
    usual, most = (sum(getattr(f, name) for f in forecasts) / workers for name in ("seconds", "most_seconds"))
    at_most = [f", at most {x}" if more else "" for x in (f"{more} more", duration(most))]
    return (
        f"{plural(trials, 'trial')}{at_most[0]}; about {duration(usual)} of training and evaluation{at_most[1]}, "
        f"with {workers} at a time; {sum(f.disk for f in forecasts) / 1e6:.1f} MB on disk"
    )


def _detects(f: Forecast, margin: float, test: str) -> str:
    """The differences that an arena can detect, in the metric's units if seeds have records."""
    if f.effect is None:
        return "cannot reach alpha: with fewer than 2 seeds there is no test"
    power = f"detects {f.effect:.1f} standard deviations {TESTS[test]} with 80% power"
    if not f.spread:  # no seeds yet, or none that differ
        return f"{power}, so its margin only if one is {plain(margin / f.effect, '.2g')} or less"
    detected = f"{power}: {plain(f.effect * f.spread, '.2g')}, by the seeds that have a record"
    return detected if f.effect * f.spread <= margin else f"{detected}, which exceeds its margin"


def _finds(f: Forecast, margin: float) -> str:
    """The trend over size that a ladder can find."""
    if f.trend_spread is None:
        return "too few sizes, horizons or seeds for a trend over size"
    if f.trend is not None:
        return f"finds a trend over size of {plain(f.trend, '.2g')} with 90% power, by the seeds that have a record"
    share = percent(f.trend_spread)
    return (
        f"finds a trend over size of {margin:g} with 90% power if seeds differ by {share} of what twice the steps gain"
    )

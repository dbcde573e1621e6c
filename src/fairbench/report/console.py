"""Verdicts for a terminal."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.published.publication import PublishedComparison
from fairbench.common.column_formatting import column_of_intervals
from fairbench.common.console import text_table
from fairbench.common.formatting import NONE, confidence_level, exact, number, p_value, plural, some
from fairbench.common.grouping import grouped
from fairbench.report.sections.verdict_grid import naming, verdict_text

TEST_NAMES = {"paired": "paired test by seed", "welch": "Welch's test of the means", "one-sample": "t-test of the mean"}
"""The tests of a user's table, in words."""
TEST_OVER_ARENAS = "paired test over the arenas"
"""The test of optimizers with one value in each arena, in words."""
TEXT = False
NUMBER = True
"""Whether a column of a table in the terminal is aligned right: TEXT is not, NUMBER is."""


def verdicts_view(
    comparisons: Sequence[Comparison],
    alpha: float,
    notes: Sequence[str],
    *,
    read_as: str,
    across: Sequence[Comparison],
) -> Group:
    """How a user's table was read, its comparisons, those over all arenas, and how they were judged.

    A narrow terminal leaves out columns.
    """
    parts: list[RenderableType] = [_comparisons_table(comparisons)]
    if read_as:  # the verdicts of a study have been read from its files
        parts.insert(0, read_as)
    if across:
        parts.append(_comparisons_table(across))
    parts += [note if note.endswith("?") else f"{note}." for note in notes]
    parts += _margins(comparisons)
    return Group(*parts, _verdicts_summary(comparisons, across, alpha))


def _comparisons_table(comparisons: Sequence[Comparison]) -> RenderableType:
    """The table of a family of comparisons."""
    sides = ["arena", *naming(comparisons)]
    gains = column_of_intervals([(row.gain, row.ci_low, row.ci_high) for row in comparisons])
    rows = []
    for comparison, gain_and_interval in zip(comparisons, gains, strict=True):
        gain, _, interval = gain_and_interval.partition(" ")
        names = [getattr(comparison, side) for side in sides]
        holm_p = p_value(comparison.p_holm)
        level = confidence_level(comparison.ci_level)
        rows.append([*names, verdict_text(comparison), gain, holm_p, interval or NONE, level])
    titles = [(side, TEXT) for side in sides]
    if all(comparison.arena == comparison.metric for comparison in comparisons):
        titles[0] = ("metric", TEXT)  # the table has no arenas
    titles += [("verdict", TEXT), ("gain", NUMBER), ("Holm p", NUMBER), ("interval", NUMBER), ("level", NUMBER)]
    return text_table(titles, rows)


def _verdicts_summary(comparisons: Sequence[Comparison], across: Sequence[Comparison], alpha: float) -> str:
    """A sentence with the number of wins, and the tests that were computed."""
    rows = [*comparisons, *across]
    names = [TEST_NAMES[comparison.test] for comparison in comparisons if comparison.p is not None]
    if any(comparison.p is not None for comparison in across):
        names.append(TEST_OVER_ARENAS)
    tests = "no test"
    if names:
        tests = f"{' or '.join(dict.fromkeys(names))}, Holm's correction{_counted_untested(rows)}"
    end = "."
    if any(comparison.margin is None for comparison in rows):
        end = "; without --margin nothing can be equivalent, and the seeds needed are unknown."
    return f"{_wins(rows)} at {alpha:g}: {tests}{end}"


def _counted_untested(comparisons: Sequence[Comparison]) -> str:
    """The end of a statement on the correction: how many comparisons it counts that have no test; empty for none."""
    untested = sum(comparison.p is None for comparison in comparisons)
    if untested == 0:
        return ""
    return f" for all {len(comparisons)}, {untested} of them without a test"


def _wins(comparisons: Sequence[Comparison]) -> str:
    """The number of wins, and who has them where there are several optimizers."""
    wins = Counter(comparison.optimizer for comparison in comparisons if comparison.is_win)
    optimizers = list(dict.fromkeys(comparison.optimizer for comparison in comparisons))
    count = f"{wins.total()} of {plural(len(comparisons), 'comparison')}"
    if len(optimizers) == 1:
        return f"{optimizers[0]} is better in {count}"
    if not wins:
        return f"{count} better"
    winners = [f"{optimizer} in {wins[optimizer]}" for optimizer in optimizers if optimizer in wins]
    return f"{count} better ({some(winners)})"


def _margins(comparisons: Sequence[Comparison]) -> list[str]:
    """The margins, and the seeds with which the undecided comparisons would detect them; empty without a margin."""
    arenas_of = grouped((exact(row.margin), row.arena) for row in comparisons if row.margin is not None)
    if not arenas_of:
        return []
    texts = []
    for margin, arenas in arenas_of.items():
        place = f" in {some(list(dict.fromkeys(arenas)))}" if len(arenas_of) > 1 else ""
        texts.append(f"{margin}{place}")
    undecided = [row for row in comparisons if row.verdict == "inconclusive"]
    needed = [row.seeds_needed for row in undecided if row.seeds_needed is not None]
    end = ""
    if needed:
        span = str(max(needed))
        if min(needed) < max(needed):
            span = f"{min(needed)} to {max(needed)}"
        end = f"; where inconclusive, {span} seeds would detect such a difference with 80% power"
    return [f"Margin: {', '.join(texts)}{end}."]


def publication_view(judged: Sequence[PublishedComparison], alpha: float) -> Group:
    """The comparisons of a publication, and the meaning of the columns. `alpha` is the family-wise error rate."""
    first = judged[0].comparison
    titles = [("arena", TEXT), ("metric", TEXT), ("baseline", TEXT), ("verdict", TEXT)]
    for title in (first.optimizer, "baseline", "g", "p", "Holm p", "printed p", "Holm p"):
        titles.append((title, NUMBER))
    wins = sum(row.comparison.is_win for row in judged)
    return Group(
        text_table(titles, [_published_row(row) for row in judged]),
        f"{wins} of {len(judged)} better at {alpha:g}. p: Welch's test of the printed means and standard deviations of "
        f"{first.seeds} seeds; Holm p: corrected for these {len(judged)} comparisons.",
    )


def _published_row(row: PublishedComparison) -> list[Any]:
    """The cells of the row of a published comparison."""
    comparison = row.comparison
    return [
        comparison.arena,
        comparison.metric,
        comparison.baseline,
        verdict_text(comparison),
        number(comparison.mean_optimizer),
        number(comparison.mean_baseline),
        number(comparison.hedges_g, 2),
        p_value(comparison.p),
        p_value(comparison.p_holm),
        p_value(row.printed_p),
        p_value(row.printed_p_holm),
    ]

"""The verdicts as a grid and in sentences, Table 1, and the flags of the audit."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.comparison.verdicts import VERDICTS, Comparison
from fairbench.analysis.curves import Aggregate, aggregates
from fairbench.common.checks import Flag
from fairbench.common.formatting import column_of_intervals, column_of_means, p_value, plural, some
from fairbench.report.document import Output, Section
from fairbench.report.figures.rows import draw_leaderboard
from fairbench.report.table import Audit, names_of
from fairbench.report.view import Column, Emphasized, Row, TableView, table_view, words

ORDER = ("better", "equivalent", "identical", "identical values", "inconclusive", "worse", "diverged", "incomplete")
"""The verdicts as a sorted grid has them."""
SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "identical": "=", "identical values": "="}
"""A sign for each verdict, so that they differ without color; the remaining ones get a question mark."""
TEST_NAMES = {"paired": "the t-test of the differences seed by seed", "welch": "Welch’s test of the two means"}
"""The tests that may decide, in words."""


def naming(comparisons: Sequence[Comparison]) -> list[str]:
    """What names a comparison among others: its optimizer, its baseline or both, but not one that all of them share."""
    sides = [side for side in ("optimizer", "baseline") if len({getattr(c, side) for c in comparisons}) > 1]
    return sides or ["baseline"]


def verdict_text(c: Comparison) -> Emphasized:
    """The verdict of a comparison with its notes."""
    return Emphasized(c.statement, c.is_win)


def _grid_text(gain: str, c: Comparison, rank: int, mark: str = "") -> Emphasized:
    """The verdict of a comparison and its gain, in a page in small text, of which only the verdict is bold."""
    verdict = verdict_text(c)
    grid = Markup('<span><span aria-hidden="true">{} </span>{}</span> <small>{}</small>')
    html, style = grid.format(SIGNS.get(c.verdict, "?"), verdict, gain), f"{c.verdict.replace(' ', '-')} {mark}"
    return Emphasized(f"{verdict} {gain}", c.is_win, "better", html, rank, style.rstrip())


def _folded(flag: Flag) -> Emphasized:
    """The evidence of a flag, of which the page shows one line until it is asked for the whole."""
    fold = Markup('<details class="line"><summary>{}</summary></details>')
    return Emphasized(flag.evidence, is_win=False, html=fold.format(flag.evidence))


def verdict_grid(analyses: Analyses) -> TableView:
    """The verdicts by arena and pair; the rows are the arenas or the pairs, whichever are more.

    The rank of a cell among all is that of better ones first, then of the larger gain.
    """
    comparisons, sides = analyses.comparisons, naming(analyses.comparisons)
    best_first = sorted(comparisons, key=lambda c: (ORDER.index(c.verdict), -(c.gain or 0)))
    found = {(c.arena, _pair(c, sides)): (c, rank) for rank, c in enumerate(best_first)}
    arenas = list(dict.fromkeys(c.arena for c in comparisons))
    pairs = list(dict.fromkeys(_pair(c, sides) for c in comparisons))
    by_arena = len(arenas) >= len(pairs)

    def column(title: str) -> Column:
        return grid_column(title, lambda row: found[(row, title) if by_arena else (title, row)])

    what = "Pair" if len(sides) > 1 else sides[0].capitalize()
    head, rows, titles = ("Arena", arenas, pairs) if by_arena else (what, pairs, arenas)
    caption = (
        f"The verdicts in each arena, {analyses.suite.question}: gain with its 95% confidence interval, positive where "
        "the optimizer is better than the baseline. Only “better” is a win."
    )
    return table_view("verdicts", caption, (Column(head, str), *map(column, titles)), rows)


def _pair(c: Comparison, sides: Sequence[str]) -> str:
    return " against ".join(getattr(c, side) for side in sides)


def grid_column(title: str, at: Callable[[Row], tuple[Any, ...]]) -> Column:
    """A column of a grid; `at` returns the comparison of a row, its rank, and, if it is marked, a class."""
    numbers = {"gain": "gain", "low": "ci_low", "high": "ci_high"}
    more = {name: lambda row, x=attribute: getattr(at(row)[0], x) for name, attribute in numbers.items()}

    def together(rows: Sequence[Row]) -> list[Emphasized]:
        found = [*map(at, rows)]
        gains = column_of_intervals([(c.gain, c.ci_low, c.ci_high) for c, *_ in found])
        return [_grid_text(gain, *of_row) for gain, of_row in zip(gains, found, strict=True)]

    return Column(title, str, more=more, together=together)


def main_table(analyses: Analyses) -> TableView:
    """Table 1 of a paper: the primary metric of every optimizer in every arena."""
    suite = analyses.suite
    found = {(a.arena, a.optimizer): a for a in analyses.of(aggregates) if a.metric == suite.arenas[a.arena].metric}

    def column(arena: str) -> Column:
        of_arena = {name: found[arena, name] for name in suite.optimizers}
        texts = column_of_means([(a.mean, a.std) for a in of_arena.values()])
        shown = {name: f"{_lost(of_arena[name])}{text}" for name, text in zip(of_arena, texts, strict=True)}

        def mean(optimizer: str) -> Emphasized:
            """The mean, a win if each verdict on it is better; a bold deviation would say nothing."""
            of = [c for c in analyses.comparisons if c.arena == arena and optimizer in c.pair[1:]]
            won = [c.is_win if c.optimizer == optimizer else c.verdict == "worse" for c in of]
            return Emphasized(shown[optimizer], bool(won) and all(won), bold="[^~]+")

        deviation = {"std": lambda optimizer: of_arena[optimizer].std}
        arrow = "↓" if suite.direction(arena) == "min" else "↑"
        head = f"{arena}: {suite.arenas[arena].metric}\N{NO-BREAK SPACE}{arrow}"
        return Column(head, mean, lambda optimizer: of_arena[optimizer].mean, more=deviation)

    caption = (
        f"Final value on the test split, mean ± standard deviation over {suite.final.in_words}. Bold where the verdict "
        "is that an optimizer is better than each with which it is compared."
    )
    if any(map(_lost, found.values())):
        caption += " † Seeds diverged, failed or are missing; the mean is that of the others, and is not compared."
    columns = Column("Optimizer", str), *map(column, suite.compared_arenas)
    return table_view("main", caption, columns, suite.optimizers)


def _lost(a: Aggregate) -> str:
    return "†" if a.diverged or a.failed or a.missing else ""


def _frozen(analyses: Analyses) -> str:
    history = analyses.history
    if not history.frozen:
        return ""
    when = history.plans[-1].declared
    return f"Declared {when} and frozen before the first final trial had a record; sha256 {history.frozen}."


def _counts(analyses: Analyses) -> str:
    """How often each verdict was made; the table of verdicts has the pairs."""
    comparisons = analyses.comparisons
    if not comparisons:
        return "There is no baseline, so nothing is compared."
    counts = Counter(c.verdict for c in comparisons)
    parts = [f"{verdict} in {counts[verdict]}" for verdict in VERDICTS if counts[verdict] or verdict == "better"]
    return f"Of {plural(len(comparisons), 'comparison')}, the verdict is {', '.join(parts)}."


def _meaning(analyses: Analyses) -> str:
    """What the verdicts need, if one was decided."""
    suite, final = analyses.suite, analyses.suite.final
    if not any(c.verdict in ("better", "worse", "equivalent", "inconclusive") for c in analyses.comparisons):
        return ""
    looks = f"An arm has {final.in_words}: p, intervals and the equivalence test are corrected for these looks. "
    return (
        f"Only better is a win. {looks if final.looks else ''}The test is {TEST_NAMES[final.test]}. "
        f"Equivalent needs an equivalence test with p below {suite.alpha:g}, which is not corrected, and comes first; "
        f"better and worse need a Holm-corrected p below {suite.alpha:g} and a difference not shown to be negligible; "
        "inconclusive means that these seeds cannot decide, not that there is no difference."
    )


def _lost_to_correction(analyses: Analyses) -> str:
    comparisons, alpha = analyses.comparisons, analyses.suite.alpha
    lost = [
        f"{analyses.title(c)} (p {p_value(c.p)}, Holm p {p_value(c.p_holm)})"
        for c in comparisons
        if c.verdict == "inconclusive" and c.p is not None and c.p_holm is not None and c.p < alpha <= c.p_holm
    ]
    if not lost:
        return ""
    return (
        f"{plural(len(lost), 'comparison')} with p below {alpha:g} before Holm's correction and not after it: "
        f"{some(lost)}. A family of {len(comparisons)} can give such values by chance; they do not count."
    )


VERDICT_SECTION = Section[Analyses](
    "verdicts",
    "Verdicts",
    (
        Output("frozen", finding=("Frozen plan", _frozen)),
        Output("verdicts", "Verdicts", view=verdict_grid, finding=("Verdicts", _counts)),
        Output("main", "Table 1", view=main_table, open_up_to=40),
        Output("leaderboard", figure=draw_leaderboard),
        Output("meaning", finding=("Meaning of the verdicts", _meaning)),
        Output("correction", finding=("Before correction", _lost_to_correction)),
    ),
    always=True,
)

FLAG_COLUMNS = (
    words("Name", "name"),
    words("Severity", "severity"),
    Column("Evidence", _folded),
    Column("Advice", lambda flag: flag.advice.replace("`", "")),
)


def flag_table(flags: Sequence[Flag]) -> Audit:
    """The flags of an audit, or the results of other checks."""
    caption = "The flags of the audit, with their evidence and advice."
    return Audit(flags, names_of(Flag), table_view("audit", caption, FLAG_COLUMNS, flags))


AUDIT = Section[Analyses](
    "audit",
    "Audit",
    (Output("audit", "Flags", view=lambda a: flag_table(a.of(audit)).view, open_up_to=8),),
    always=True,
)

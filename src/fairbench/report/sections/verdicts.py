"""The verdicts in sentences, and Table 1."""

from collections import Counter
from collections.abc import Mapping, Sequence

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.judge import WIDER
from fairbench.analysis.comparison.verdicts import VERDICTS, Comparison
from fairbench.analysis.curves import Aggregate, aggregates
from fairbench.analysis.pair_times import pair_times
from fairbench.common.column_formatting import column_of_means
from fairbench.common.formatting import exact, interval, number, p_value, plural, some, with_arrow
from fairbench.report.document import Output, Section
from fairbench.report.figures.leaderboard import draw_leaderboard
from fairbench.report.sections.verdict_grid import verdict_grid
from fairbench.report.view import Emphasized, TableView, TextColumn, table_view
from fairbench.suites.schema import Suite

TEST_NAMES = {"paired": "the t-test of the differences seed by seed", "welch": "Welch’s test of the two means"}
"""The tests that may decide, in words."""
IN_WORDS = {
    "better": "better",
    "worse": "worse",
    "equivalent": "equivalent (within the margin)",
    "identical": "identical weights",
    "identical values": "identical values",
    "inconclusive": "not decided",
}
"""Verdicts as they stand in a sentence."""
MOST_SENTENCES = 6
"""The most pairs of optimizers for which the page has a sentence each."""


def main_table(analyses: Analyses) -> TableView:
    """Table 1 of a paper: the primary metric of every optimizer in every arena."""
    suite = analyses.suite
    primary_values = _primary_values(analyses)
    columns = [TextColumn("Optimizer", str)]
    for arena in suite.compared_arenas:
        by_optimizer = {name: primary_values[arena, name] for name in suite.optimizers}
        columns.append(_arena_column(analyses, arena, by_optimizer))
    caption = (
        f"Final value on the test split, mean ± standard deviation over {suite.final.in_words}. Bold where the verdict "
        "is that an optimizer is better than each with which it is compared."
    )
    if any(_lost_mark(row) for row in primary_values.values()):
        caption += " † Seeds diverged, failed or are missing; the mean is that of the others, and is not compared."
    return table_view("main", caption, columns, suite.optimizers)


def _primary_values(analyses: Analyses) -> dict[tuple[str, str], Aggregate]:
    """The values of the primary metric of each arm, by arena and optimizer."""
    arenas = analyses.suite.arenas
    primary_values = {}
    for row in analyses.of(aggregates):
        if row.metric == arenas[row.arena].metric:
            primary_values[row.arena, row.optimizer] = row
    return primary_values


def _arena_column(analyses: Analyses, arena: str, by_optimizer: Mapping[str, Aggregate]) -> TextColumn:
    """The column of the means in an arena. Its rows are optimizers."""
    suite = analyses.suite
    texts = column_of_means([(row.mean, row.std) for row in by_optimizer.values()])
    shown = {}
    for optimizer, text in zip(by_optimizer, texts, strict=True):
        shown[optimizer] = f"{_lost_mark(by_optimizer[optimizer])}{text}"

    def text_of(optimizer: str) -> Emphasized:
        is_win = _wins_all(analyses, arena, optimizer)
        return Emphasized(shown[optimizer], is_win, bold="[^~]+")  # only the mean is bold

    def mean(optimizer: str) -> float | None:
        return by_optimizer[optimizer].mean

    def deviation(optimizer: str) -> float | None:
        return by_optimizer[optimizer].std

    metric = with_arrow(suite.arenas[arena].metric, suite.direction(arena))
    title = f"{arena}: {metric}"
    return TextColumn(title, text_of, value=mean, more={"std": deviation})


def _wins_all(analyses: Analyses, arena: str, optimizer: str) -> bool:
    """Whether an optimizer is better in each comparison in an arena, of which there is at least one."""
    won = []
    for comparison in analyses.comparisons:
        if comparison.arena != arena or optimizer not in comparison.pair[1:]:
            continue
        if comparison.optimizer == optimizer:
            won.append(comparison.is_win)
        else:  # it is the baseline, and wins if the other one is worse
            won.append(comparison.verdict == "worse")
    return bool(won) and all(won)


def _lost_mark(row: Aggregate) -> str:
    """The mark of an arm some of whose seeds are lost; empty without lost seeds."""
    return "†" if row.diverged or row.failed or row.missing else ""


def _frozen(analyses: Analyses) -> str:
    """A sentence on the frozen plan; empty if the plan is not frozen."""
    history = analyses.history
    if not history.frozen:
        return ""
    when = history.plans[-1].declared
    return f"Declared {when} and frozen before the first final trial had a record; sha256 {history.frozen}."


def _counts(analyses: Analyses) -> str:
    """A sentence on how often each verdict was made. The table of verdicts has the pairs."""
    comparisons = analyses.comparisons
    if not comparisons:
        return "There is no baseline, so nothing is compared."
    counts = Counter(comparison.verdict for comparison in comparisons)
    if counts["incomplete"] == len(comparisons):
        return _nothing_decided(analyses)
    if len(comparisons) == 1:
        return _only_comparison(analyses, comparisons[0])
    parts = []
    for verdict in VERDICTS:
        if counts[verdict] or verdict == "better":
            parts.append(f"{verdict} in {counts[verdict]}")
    compared = plural(len(comparisons), "comparison")
    pairs = {(comparison.optimizer, comparison.baseline) for comparison in comparisons}
    if len(pairs) == 1:
        optimizer, baseline = pairs.pop()
        compared = f"{compared} of {optimizer} with {baseline}"
    return f"Of {compared}, the verdict is {', '.join(parts)}."


def _nothing_decided(analyses: Analyses) -> str:
    """A sentence on a study none of whose comparisons is complete."""
    pairs = {f"{comparison.optimizer} against {comparison.baseline}" for comparison in analyses.comparisons}
    compared = plural(len(analyses.comparisons), "comparison")
    if len(pairs) == 1:
        compared = pairs.pop()
    shortage = analyses.results.shortage or "finished trials have no value of the metric"
    return f"{compared}: nothing is decided yet; {shortage}."


def _only_comparison(analyses: Analyses, comparison: Comparison) -> str:
    """The only comparison of a study in words: metric, verdict, both means, the gain with its interval, the margin."""
    suite = analyses.suite
    arena = comparison.arena
    metric = f"{comparison.metric} ({suite.better(arena)})"
    verdict = f"{comparison.optimizer} against {comparison.baseline}, {metric}: {comparison.statement}"
    if comparison.gain is None:
        return f"{verdict}."
    means = f"Mean {number(comparison.mean_optimizer)} against {number(comparison.mean_baseline)}"
    gain = f"gain {interval(comparison.gain, comparison.ci_low, comparison.ci_high)}"
    return f"{verdict}. {means}, {gain}, margin {exact(analyses.margin(comparison))}."


def verdicts_in_words(analyses: Analyses) -> list[str]:
    """A sentence for each pair of an optimizer and a baseline on its verdicts.

    Empty if there are many pairs, or only one comparison, of which `_counts` says more.
    """
    if len(analyses.comparisons) == 1:
        return []
    arenas_of_pair: dict[tuple[str, str], dict[str, list[str]]] = {}
    for comparison in analyses.comparisons:
        pair = (comparison.optimizer, comparison.baseline)
        words = IN_WORDS.get(comparison.verdict, comparison.verdict)
        arenas_of_pair.setdefault(pair, {}).setdefault(words, []).append(comparison.arena)
    if len(arenas_of_pair) > MOST_SENTENCES:
        return []
    return [_sentence_on_pair(*pair, arenas) for pair, arenas in arenas_of_pair.items()]


def _sentence_on_pair(optimizer: str, baseline: str, arenas_of_verdict: Mapping[str, Sequence[str]]) -> str:
    """A sentence on a pair. The arenas have the verdict in words as their key."""
    parts = []
    for words in sorted(arenas_of_verdict, key=_order_of_words):
        arenas = arenas_of_verdict[words]
        where = f"in {_listed(arenas)}"
        if len(arenas_of_verdict) == 1 and len(arenas) > 2:
            where = f"in all {len(arenas)} arenas"
        parts.append(f"{words} {where}")
    return f"{optimizer} against {baseline}: {'; '.join(parts)}."


def _order_of_words(words: str) -> int:
    """The place of a verdict in a sentence: the decided ones first."""
    known = [*IN_WORDS.values()]
    return known.index(words) if words in known else len(known)


def _listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence, such as "gpt, vit and ddpm"."""
    *others, last = names
    if not others:
        return last
    return f"{', '.join(others)} and {last}"


def _meaning(analyses: Analyses) -> str:
    """Sentences on what each verdict needs; empty if no comparison could be tested."""
    decided = {"better", "worse", "equivalent", "inconclusive"}
    if not any(comparison.verdict in decided for comparison in analyses.comparisons):
        return ""
    suite = analyses.suite
    correction = ""
    if suite.final.interim_analyses:
        correction = f"An arm has {suite.final.in_words}: p and intervals are corrected for these interim analyses. "
    excludes = "the interval excludes 0"
    if suite.searches:
        excludes += ", and the gain holds with each setting that the search cannot tell from the best"
    compared = plural(len(analyses.comparisons), "comparison")
    untested = sum(comparison.p is None for comparison in analyses.comparisons)
    if untested:
        compared += f", {untested} of them without a test"
    return (
        f"Only better is a win. {correction}The test is {TEST_NAMES[suite.final.test]}. "
        f"Equivalent: the whole interval lies within the margin; this comes first. Better and worse: {excludes}; "
        f"the gain may still be smaller than the margin. The interval is corrected for {compared} (Holm, "
        f"{suite.alpha:g}). It contains {_contained(suite)}. Inconclusive means that these trainings cannot decide, "
        f"not that there is no difference.{_wider(analyses)}"
    )


def _wider(analyses: Analyses) -> str:
    """A sentence on intervals that a wider search may change; empty without any."""
    if not any(WIDER in comparison.note for comparison in analyses.comparisons):
        return ""
    return (
        f' Where the note is "{WIDER}", the interval is that of the rates that were tried, and p allows for any better '
        "rate beyond them: p is then 1, although the interval may exclude 0."
    )


def _contained(suite: Suite) -> str:
    """What the interval of a gain contains, in words."""
    if not suite.searches:
        return "the variation between seeds, not that between other validation examples"
    if suite.selection == "test":
        return "the variation between seeds, and what a finer search could change"
    return "the variation between seeds, what a finer search could change, and the choice of the test examples"


def _times(analyses: Analyses) -> str:
    """Sentences on the time of each variant against its baseline; empty where no variants are compared."""
    sentences = []
    without_ratio: dict[str, list[tuple[str, str, str]]] = {}
    for row in analyses.of(pair_times):
        if row.trial_ratio is None or row.trial_low is None or row.trial_high is None:
            pairs_with_reason = without_ratio.setdefault(f"{row.verdict} ({row.note})", [])
            pairs_with_reason.append((row.arena, row.optimizer, row.baseline))
            continue
        pair = analyses.suite.pair_title(row.arena, row.optimizer, row.baseline)
        ratio = f"{row.trial_ratio:.3f} times the time of a trial"
        interval = f"[{row.trial_low:.3f}, {row.trial_high:.3f}]"
        sentences.append(f"{pair}: {row.verdict}, {ratio} {interval}, {plural(row.pairs, 'pair')}.")
    for reason, pairs in without_ratio.items():
        sentences.append(f"{'; '.join(analyses.suite.pair_titles(pairs))}: {reason}.")
    return " ".join(sentences)


def _lost_to_correction(analyses: Analyses) -> str:
    """A sentence on the comparisons that would be decided only before the correction; empty without any."""
    alpha = analyses.suite.alpha
    comparisons = analyses.comparisons
    lost = []
    for c in comparisons:
        if _is_lost(c, c.p, c.p_holm, alpha):
            lost.append(f"{analyses.title(c)} (p {p_value(c.p)}, Holm p {p_value(c.p_holm)})")
        if _is_lost(c, c.p_equivalence, c.p_equivalence_holm, alpha):
            p = f"(p of equivalence {p_value(c.p_equivalence)}, Holm p {p_value(c.p_equivalence_holm)})"
            lost.append(f"{analyses.title(c)} {p}")
    if not lost:
        return ""
    return (
        f"{plural(len(lost), 'test')} with p below {alpha:g} before Holm's correction and not after it: "
        f"{some(lost)}. A family of {len(comparisons)} can give such values by chance; they do not count."
    )


def _is_lost(comparison: Comparison, p: float | None, p_holm: float | None, alpha: float) -> bool:
    """Whether a p of an inconclusive comparison is below alpha before Holm's correction, but not after it."""
    if comparison.verdict != "inconclusive" or p is None or p_holm is None:
        return False
    return p < alpha <= p_holm


VERDICT_SECTION = Section[Analyses](
    name="verdicts",
    title="Verdicts",
    outputs=(
        Output(name="frozen", finding=("Frozen plan", _frozen)),
        Output(
            name="verdicts", title="Verdicts", view=verdict_grid, finding=("Verdicts", _counts), texts=verdicts_in_words
        ),
        Output(name="times", finding=("Verdicts on time", _times)),
        Output(name="main", title="Table 1", view=main_table, open_up_to=40),
        Output(name="leaderboard", figure=draw_leaderboard),
        Output(name="meaning", finding=("Meaning of the verdicts", _meaning)),
        Output(name="correction", finding=("Before correction", _lost_to_correction)),
    ),
    always=True,
)

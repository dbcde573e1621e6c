"""The tables of results, learning rates and cost, and the list of all tables."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fairbench.analysis.aggregates import Aggregate, aggregates
from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.audit.search import edge
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.cost import Cost, costs
from fairbench.analysis.curves import EqualTime, equal_times
from fairbench.analysis.results import ArmResults, Results
from fairbench.common.checks import Flag
from fairbench.report.tables.analyses import analysis_tables
from fairbench.report.tables.budget import search_in_words
from fairbench.report.tables.model import (
    ARM,
    Column,
    TableView,
    integers,
    intervals,
    numbers,
    page_only,
    table_view,
    words,
)
from fairbench.report.tables.numbers import (
    NONE,
    column_of_means,
    exact,
    measured,
    number,
    p_value,
    rate,
    three,
)
from fairbench.report.tables.provenance import provenance_tables
from fairbench.report.tables.verdict_grid import verdict_grid
from fairbench.report.tables.verdict_text import MeanText, VerdictText
from fairbench.study.plan import Selection
from fairbench.suites.schema import RULES, Suite
from fairbench.suites.search import Setting, are_numbers


def all_tables(analyses: Analyses) -> dict[str, TableView]:
    """Every table that has a row, by its name."""
    tables = [
        verdict_grid(analyses.suite, analyses.comparisons),
        main_table(analyses),
        comparison_table(analyses),
        statistic_table(analyses),
        metric_table(analyses),
        rate_table(analyses.results),
        cost_table(analyses.of(costs)),
        equal_time_table(analyses.of(equal_times), analyses.suite.selection_name),
        flag_table(analyses.of(audit)),
        *analysis_tables(analyses),
        *provenance_tables(analyses),
    ]
    return {table.name: table for table in tables if table.rows}


def main_table(analyses: Analyses) -> TableView:
    """Table 1 of a paper: the primary metric of every optimizer in every arena."""
    suite = analyses.suite
    found = {(a.arena, a.optimizer): a for a in analyses.of(aggregates) if a.metric == suite.arenas[a.arena].metric}
    compared: dict[tuple[str, str], list[Comparison]] = {}
    for c in analyses.comparisons:
        for name in (c.reference, c.baseline):
            compared.setdefault((c.arena, name), []).append(c)

    def column(arena: str) -> Column:
        of_arena = {name: found[arena, name] for name in suite.optimizers}
        texts = column_of_means([(a.mean, a.std) for a in of_arena.values()])
        shown = {name: f"{_lost(of_arena[name])}{text}" for name, text in zip(of_arena, texts, strict=True)}

        def mean(optimizer: str) -> MeanText:
            return MeanText(shown[optimizer], optimizer, compared.get((arena, optimizer), ()))

        deviation = {"std": lambda optimizer: of_arena[optimizer].std}
        return Column(_metric(suite, arena), mean, lambda optimizer: of_arena[optimizer].mean, more=deviation)

    whom = (
        "every other" if suite.compare == "all" else f"{suite.reference}, or {suite.reference} better than every other"
    )
    caption = (
        f"Final value on the test split, mean ± standard deviation over {suite.final.in_words}. Bold where the verdict "
        f"is that an optimizer is better than {whom}."
    )
    if any(map(_lost, found.values())):
        caption += " † Seeds diverged, failed or are missing; the mean is that of the others, and is not compared."
    columns = Column("Optimizer", str), *map(column, suite.compared_arenas)
    return table_view("main", caption, columns, suite.optimizers)


def _metric(suite: Suite, arena: str) -> str:
    return f"{arena}: {suite.arenas[arena].metric}\N{NO-BREAK SPACE}{'↓' if suite.direction(arena) == 'min' else '↑'}"


def _lost(a: Aggregate) -> str:
    return "†" if a.diverged or a.failed or a.missing else ""


def comparison_table(analyses: Analyses) -> TableView:
    """Every comparison with its tests."""
    suite = analyses.suite
    every = suite.compare == "all"
    whose = "the optimizer" if every else suite.reference
    caption = (
        "Final value of each arena’s primary metric on the test split. Advantage, interval and g are positive where "
        f"{whose} is better. Only “better” is a win. Alpha {exact(suite.alpha)}; the interval is not "
        "corrected for the number of comparisons, Holm p is."
    )
    if suite.final.looks:
        caption += " Intervals, Holm p and TOST p are corrected for the looks, Welch p is not."
    columns = (
        words("Arena", "arena"),
        *([words("Optimizer", "reference")] if every else []),
        words("Baseline", "baseline"),
        Column("Verdict", VerdictText),
        *page_only(
            Column("Metric", lambda c: f"{c.metric}\N{NO-BREAK SPACE}{'↓' if c.direction == 'min' else '↑'}"),
            Column(
                "Optimizer’s" if every else suite.reference,
                lambda c: measured(c.mean_reference, c.std_reference),
                lambda c: c.mean_reference,
            ),
            Column("Baseline’s", lambda c: measured(c.mean_baseline, c.std_baseline), lambda c: c.mean_baseline),
        ),
        intervals("Advantage", "advantage"),
        *page_only(
            numbers("Margin", "margin", exact),
            numbers("Hedges’ g", "hedges_g", lambda g: number(g, 3)),
            numbers("Welch p", "p", p_value),
        ),
        numbers("Holm p", "p_holm", p_value),
        numbers("TOST p", "p_equivalence", p_value),
    )
    return table_view("comparisons", caption, columns, analyses.comparisons)


def statistic_table(analyses: Analyses) -> TableView:
    """Further statistics of every comparison, on which no verdict depends."""
    caption = (
        "Further statistics, not corrected; no verdict depends on them: the t-test paired by seed and the correlation "
        "of the arms over seeds, the "
        "test of equal spread, the 95% interval of g, and the seeds needed to find a difference of the margin."
    )
    every = analyses.suite.compare == "all"
    columns = (
        words("Arena", "arena"),
        *([words("Optimizer", "reference")] if every else []),
        words("Baseline", "baseline"),
        numbers("Paired p", "p_paired", p_value),
        *page_only(numbers("Correlation", "seed_correlation", lambda r: number(r, 2))),
        numbers("Spread p", "p_spread", p_value),
        intervals("Hedges’ g", "hedges_g", "g_low", "g_high"),
        numbers("Seeds needed", "seeds_needed", exact),
    )
    return table_view("statistics", caption, columns, analyses.comparisons)


def metric_table(analyses: Analyses) -> TableView:
    """Every metric of every arm."""
    caption = (
        "Test split, mean and standard deviation over the finished seeds. Where seeds diverged, failed or are missing, "
        "the mean is that of the finished ones and is not compared."
    )
    arenas = analyses.suite.arenas
    places = [(arena, metric) for arena in arenas for metric in analyses.results.metrics[arena]]
    columns = (
        words("Arena", "arena"),
        Column("Metric", lambda a: f"{a.metric}{' (primary)' if a.metric == arenas[a.arena].metric else ''}"),
        words("Optimizer", "optimizer"),
        Column("Mean", lambda a: measured(a.mean, a.std), lambda a: a.mean),
        numbers("Std", "std", lambda std: number(std, 2)),
        integers("Finished", "n"),
        integers("Diverged", "diverged"),
        *page_only(integers("Failed", "failed"), integers("Missing", "missing")),
    )
    order = {place: i for i, place in enumerate(places)}
    rows = sorted(analyses.of(aggregates), key=lambda a: order[a.arena, a.metric])
    return table_view("metrics", caption, columns, rows)


def rate_table(results: Results) -> TableView:
    """The search of each arm and the selected setting."""
    suite = results.study.suite
    unread = " ".join(f"By choice of the suite, {RULES[rule]}." for rule in suite.breaks)
    unread = unread or "Neither the test split nor the final seeds were used for it."
    caption = (
        f"Selected on the {suite.selection_name} split by the same rule for every optimizer: "
        f"{search_in_words(results.study)}. {unread}"
    )
    sweep = (
        [_selected_column("By the sweep", lambda x: x.lr, is_number=True, by="searched")] if suite.sweep.confirm else []
    )
    columns = (
        *ARM,
        *sweep,
        _selected_column("Selected", lambda setting: setting.lr, is_number=True),
        *(_extra_column(name, values) for name, values in suite.sweep.extra.items()),
        Column("Place among the rates tried", _place),
        Column("Tried", lambda arm: str(len(arm.rates)), lambda arm: len(arm.rates)),
        Column("From", lambda arm: rate(min(arm.rates, default=None)), lambda arm: min(arm.rates, default=None)),
        Column("To", lambda arm: rate(max(arm.rates, default=None)), lambda arm: max(arm.rates, default=None)),
    )
    return table_view("learning_rates", caption, columns, [arm for arm in results.arms if arm.sweep or not arm.tuned])


def _extra_column(name: str, values: Sequence[Any]) -> Column:
    """The selected value of a hyperparameter that is searched with the rate."""
    title = name.capitalize().replace("_", " ")
    return _selected_column(title, lambda setting: dict(setting.extra).get(name), are_numbers(values))


def _selected_column(title: str, of: Callable[[Setting], Any], is_number: bool, by: str = "selected") -> Column:
    """A part of the selected settings; where repeated searches selected several, the number of final seeds of each."""

    def most_common(arm: ArmResults) -> list[tuple[Any, int]]:
        selection: Selection = getattr(arm, by)
        return Counter(
            of(selection.by_seed[run.seed]) for run in arm.final if run.seed in selection.by_seed
        ).most_common()

    def text(arm: ArmResults) -> str:
        values = [(rate(value) if is_number else str(value), n) for value, n in most_common(arm) if value is not None]
        return ", ".join(f"{value} ({n})" if len(values) > 1 else value for value, n in values) or NONE

    return Column(title, text, (lambda arm: next(iter(most_common(arm)), (None,))[0]) if is_number else None)


def _place(arm: ArmResults) -> str:
    if not arm.tuned:
        return "untuned: none was searched"
    if arm.diverged:
        return "diverged at every rate"
    place = edge(arm)
    return {"": "sweep incomplete", "inside": "inside"}.get(place, f"{place}: at the edge")


def cost_table(costs: Sequence[Cost]) -> TableView:
    """The cost of training by phases."""
    caption = (
        "Medians over the timing trials, in which the optimizers alternated, or over the final trials where there are "
        "none (source); all trials: those of the search too, summed. A training step is data, forward, backward and "
        "optimizer; the optimizer’s part is clipping, step and schedule. Repeated timings differ; on a CPU, trials may "
        "share the machine."
    )
    phases = ("Data", "data"), ("Forward", "forward"), ("Backward", "backward"), ("Optimizer", "step")
    columns = (
        *ARM,
        *page_only(words("Source", "source"), integers("Trials", "trials")),
        numbers("Training step, ms", "train_ms", three),
        *(numbers(f"{title}, ms", f"{phase}_ms", three) for title, phase in phases),
        *page_only(
            numbers("Evaluation, s", "eval_s", three),
            numbers("Trial, s", "trial_s", three),
            numbers("All trials, s", "total_s", three),
        ),
        numbers("Peak memory, MB", "peak_memory_mb", "{:.0f}".format),
    )
    return table_view("cost", caption, columns, costs)


def equal_time_table(rows: Sequence[EqualTime], split: str) -> TableView:
    """Every arm after the training time of the fastest arm of its arena."""
    caption = (
        "Every arm after the training time that the fastest of its arena needs for all its steps, evaluation and start "
        f"not counted: steps times the milliseconds of a step. {split.capitalize()} split, mean over the final seeds, "
        "linear between evaluations. A slower arm is then not at the end of its schedule; with one for that time it "
        "would do better."
    )
    columns = (
        *ARM,
        words("Metric", "metric"),
        numbers("Training time, s", "seconds", three),
        numbers("Steps by then", "steps", "{:.0f}".format),
        numbers("Value then", "value", number),
        numbers("Value at its end", "final", number),
    )
    return table_view("equal_time", caption, columns, rows)


def flag_table(flags: Sequence[Flag]) -> TableView:
    """The flags of the audit."""
    columns = (
        *(words(title.capitalize(), title) for title in ("name", "severity", "evidence")),
        Column("Advice", lambda flag: flag.advice.replace("`", "")),
    )
    return table_view("audit", "The flags of the audit, with their evidence and advice.", columns, flags)

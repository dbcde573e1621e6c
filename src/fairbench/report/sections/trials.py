"""The trials that did not finish, and the data files of all trials."""

from collections import Counter
from collections.abc import Iterator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import Run
from fairbench.common.formatting import rate
from fairbench.common.grouping import grouped
from fairbench.report.columns import ARM, integers, numbers, words
from fairbench.report.document import Output, Section
from fairbench.report.render.parquet import RECORDS, RecordTable, record_table
from fairbench.report.sections.trial_tables import (
    CurveValue,
    FinalValue,
    SearchedValue,
    all_curves,
    final_table,
    search_table,
)
from fairbench.report.view import TextColumn


def _unfinished(analyses: Analyses) -> list[Run]:
    """The trials that failed or diverged."""
    return analyses.results.select(lambda run: run.status in ("failed", "diverged"))


def _outcome(run: Run) -> str:
    """How a trial ended that did not finish, in words."""
    if run.result:
        return f"diverged, detected at step {run.result.steps}"
    return f"failed, {run.error}"


def _tracebacks(analyses: Analyses) -> Iterator[tuple[str, str]]:
    """Each traceback with a summary of its trials, since many trials may fail for the same reason."""
    runs = analyses.results.select(lambda run: True)
    failed_runs = grouped((run.error.traceback, run) for run in runs if run.error)
    for traceback, (first, *others) in failed_runs.items():
        summary = f"{first.arena} {first.optimizer}, {first.stage}, learning rate {rate(first.lr)}, seed {first.seed}"
        if others:
            summary += f" and {len(others)} more with the same traceback"
        yield summary, traceback


def _missing(analyses: Analyses) -> Iterator[str]:
    """A sentence for each arena on the number of trials without a record."""
    counts: dict[str, Counter[str]] = {}
    for run in analyses.results.select(lambda run: run.status == "missing"):
        arena_counts = counts.setdefault(run.arena, Counter())
        arena_counts[run.optimizer] += 1
    for arena, arena_counts in counts.items():
        listed = ", ".join(f"{optimizer} {count}" for optimizer, count in arena_counts.items())
        yield f"{arena}: {arena_counts.total()} without a record ({listed})."


LOST_COLUMNS = (
    *ARM,
    words("Stage", "stage"),
    numbers("Learning rate", "lr", form=rate),
    numbers("Weight decay", "weight_decay", form=rate),
    integers("Seed", "seed"),
    TextColumn("Outcome", _outcome),
)

LOST_TABLE = Output[Analyses](
    name="lost",
    title="Trials",
    rows=_unfinished,
    columns=LOST_COLUMNS,
    caption="Trials that diverged or failed.",
    folded=_tracebacks,
    texts=_missing,
)

SEARCH_FILE = Output[Analyses](
    name="lr_sweep",
    kind=SearchedValue,
    data=lambda analyses: search_table(analyses.results),
    always=True,
)

CURVE_FILE = Output[Analyses](
    name="steps",
    kind=CurveValue,
    data=lambda analyses: all_curves(analyses.results),
    always=True,
)

FINAL_FILE = Output[Analyses](
    name="summary",
    kind=FinalValue,
    data=lambda analyses: final_table(analyses.results),
    always=True,
)

RECORDS_FILE = Output[Analyses](
    name="records",
    kind=RecordTable,
    data=lambda analyses: record_table(analyses.results),
    file=RECORDS,
    always=True,
)

TRIALS = Section[Analyses](
    name="lost",
    title="Unfinished trials",
    outputs=(LOST_TABLE, SEARCH_FILE, CURVE_FILE, FINAL_FILE, RECORDS_FILE),
)

"""Budget, treatment, time and memory of each arm, and whether all trials had the same start and data."""

from collections.abc import Sequence

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.budget import budgets, equality
from fairbench.analysis.comparability import hash_checks
from fairbench.analysis.cost import Cost, costs
from fairbench.analysis.curves import equal_times
from fairbench.analysis.tuning import ALL, DEFAULT, Tuning, tuning
from fairbench.common.formatting import column_of_numbers, exact, percent, plural, rate
from fairbench.report.document import Output, Section
from fairbench.report.figures.rows import draw_step_time
from fairbench.report.view import (
    ARM,
    Column,
    TableView,
    aligned,
    answers,
    differences,
    integers,
    numbers,
    page_only,
    table_view,
    values,
    words,
)

AGREEMENT = ("agree", "DIFFER", "not shown")
SMALL_BUDGETS = ("1", "2", "4", "8")
"""The numbers of settings for which the table of tuning has columns, where every arm of an arena tried as many."""


def tuning_table(analyses: Analyses) -> TableView:
    """What each arm reaches at its default, with few settings and with all of its search."""
    caption = (
        f"What tuning costs, by the values of the search: {analyses.suite.selection_name} split, end of the sweep "
        "trials. Default: the tried setting nearest to the optimizer’s own, or the middle of the grid if it has none; "
        "a dash if its own is outside the tried ones. Best of 2: expected for 2 settings that are drawn at random, "
        "with replacement, from those tried. In parentheses: the rank in the arena. Gain: of the best over the "
        "default; it includes the luck of the selection. A setting that diverged counts as the worst value with which "
        "one finished in the arena."
    )
    rows = analyses.of(tuning)
    found = {(row.arena, row.optimizer, row.drawn): row for row in rows}

    def reached(title: str, drawn: str) -> Column:
        def at(row: Tuning) -> Tuning | None:
            return found.get((row.arena, row.optimizer, drawn))

        value, rank = (lambda row, of=of: getattr(at(row), of, None) for of in ("value", "rank"))
        return Column(title, str, value, more={"rank": rank}, together=lambda rows: _with_ranks([*map(at, rows)]))

    def lost(row: Tuning) -> float:
        return found[row.arena, row.optimizer, "1"].p_diverged

    every = [row for row in rows if row.drawn == ALL]
    few = [k for k in SMALL_BUDGETS if any(row.drawn == k and row.rank for row in rows)]
    columns = (
        *ARM,
        *page_only(words("Metric", "metric")),
        numbers("Default rate", "default_lr", rate),
        reached("At the default", DEFAULT),
        *(reached(f"Best of {k}", k) for k in few),
        reached("Best of all", ALL),
        *page_only(integers("Settings", "settings")),
        *([Column("Diverged", lambda row: percent(lost(row)), lost)] if any(map(lost, every)) else []),
        differences("Gain", "gain"),
    )
    return table_view("tuning", caption, columns, every)


def _with_ranks(rows: Sequence[Tuning | None]) -> list[str]:
    def text(row: Tuning | None, value: str) -> str:
        rank = f" ({exact(row.rank)})" if row and row.rank else ""
        return f"{'diverged' if row and row.p_diverged == 1 else value}{rank}"

    return [*map(text, rows, column_of_numbers([row.value if row else None for row in rows], 4))]


def _equal_conditions(analyses: Analyses) -> str:
    checks = analyses.of(hash_checks)
    if not checks or not all(x.agrees and x.initial_weights and x.batches for x in checks):
        return ""
    built = all(analyses.results.study.arenas[check.arena].starts for check in checks)
    groups = f"{'all ' if checks[1:] else ''}{plural(len(checks), 'group')}"
    return (
        f"In {groups} of trials that share arena, stage and seed, the sha256 agree: of the initial weights"
        f"{' (those of a process without an optimizer)' if built else ''}, and of batch order and noise of the trials "
        "that finished."
    )


BUDGET = Section[Analyses](
    "budget",
    "Budget and treatment",
    (
        Output(
            "budget",
            "Trials and steps",
            lambda a: a.of(budgets),
            (
                *ARM,
                words("Rates", "search"),
                integers("Settings", "settings"),
                integers("Search, trials", "sweep_trials"),
                integers("Search, steps", "sweep_steps"),
                integers("Final, trials", "final_trials"),
                integers("Final, steps", "final_steps"),
            ),
            lambda a: (
                "Search and training of each arm: trials with a record, and their steps. Extensions of a grid count. "
                f"{equality(a.of(budgets))}"
            ),
        ),
        Output("tuning", "What tuning costs", lambda a: a.of(tuning), view=tuning_table, kind=Tuning, always=True),
        Output(
            "treatment",
            "Treatment",
            lambda a: a.of(budgets),
            (
                *ARM,
                *page_only(words("From", "factory")),
                *(words(x.capitalize(), x) for x in ("clipping", "centralization")),
                words("AGC", "adaptive_clipping"),
                *(words(x.capitalize(), x) for x in ("groups", "schedule")),
                words("Weight decay", "decay"),
                *page_only(words("Set by the suite", "options")),
            ),
            "Treatment of each arm by the options that built it: clipping of the gradients’ global norm, "
            "gradient centralization, adaptive gradient clipping (AGC), parameter groups, the schedule of the rate, "
            "weight decay and whether it is coupled to the gradient.",
        ),
        Output(
            "conditions",
            "Conditions",
            lambda a: a.of(hash_checks),
            (
                words("Arena", "arena"),
                words("Stage", "stage"),
                integers("Seed", "seed"),
                integers("Trials", "trials"),
                answers("Initial weights", "initial_weights", *AGREEMENT),
                answers("Batch order", "batches", *AGREEMENT),
                answers("Noise", "noise", *AGREEMENT),
            ),
            "Whether the sha256 of trials agree that share arena, stage and seed; initial weights also with those of a "
            "process without an optimizer, batch order and noise among the trials that finished.",
            finding=("Same start, same data", _equal_conditions),
        ),
    ),
)


PHASES = ("Data", "data"), ("Forward", "forward"), ("Backward", "backward"), ("Optimizer", "step")


def _measured(analyses: Analyses) -> str:
    programs = any(cost.data_on == "program" for cost in analyses.of(costs))
    wall = "Of a training program, a step is its wall time, start included, over its steps, without phases. "
    fused = [name for name, plan in analyses.suite.optimizers.items() if plan.options.get("fused")]
    ran = f"Fused updates ran for {' and '.join(fused)}; " if fused else ""
    return (
        "Medians over the timing trials, in which the optimizers alternated, or over the final trials where there "
        "are none (source); all trials: those of the search too, summed. A training step is data, forward, "
        "backward and optimizer; the optimizer’s part is clipping, step and schedule. "
        f"{wall if programs else ''}{ran}{'all others' if fused else 'All optimizers'} ran as their libraries do by "
        "default. "
        "Repeated timings differ; on a CPU, trials may share the machine."
    )


COST = Section[Analyses](
    "cost",
    "Cost",
    (
        Output("step_time", figure=draw_step_time),
        Output(
            "cost",
            "Time and memory",
            lambda a: a.of(costs),
            (
                *ARM,
                *page_only(words("Source", "source"), integers("Trials", "trials")),
                aligned("Training step, ms", "train_ms"),
                *(aligned(f"{title}, ms", f"{phase}_ms") for title, phase in PHASES),
                *page_only(
                    aligned("Evaluation, s", "eval_s"),
                    aligned("Trial, s", "trial_s"),
                    aligned("All trials, s", "total_s"),
                ),
                numbers("Peak memory, MB", "peak_memory_mb", "{:.0f}".format),
            ),
            _measured,
            kind=Cost,
            always=True,
        ),
        Output(
            "equal_time",
            "At equal time",
            lambda a: a.of(equal_times),
            (
                *ARM,
                words("Metric", "metric"),
                aligned("Training time, s", "seconds"),
                numbers("Steps by then", "steps", "{:.0f}".format),
                values("Value then", "value"),
                values("Value at its end", "final"),
            ),
            lambda a: (
                "Every arm after the training time that the fastest of its arena needs for all its steps, evaluation "
                "and start not counted: steps times the milliseconds of a step. "
                f"{a.suite.selection_name.capitalize()} split, mean over the final seeds, linear between evaluations. "
                "A slower arm is then not at the end of its schedule; with one for that time it would do better."
            ),
        ),
    ),
)

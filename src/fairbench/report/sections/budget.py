"""The budget and the treatment of each arm, and whether all trials had the same start and the same data."""

from dataclasses import asdict, dataclass, replace

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.budget import Budget, budgets, equality
from fairbench.analysis.comparability import HashCheck, hash_checks
from fairbench.analysis.tuning import Tuning, tuning
from fairbench.common.formatting import plural
from fairbench.common.grouping import grouped
from fairbench.report.columns import ARM, answers, integers, page_only, words
from fairbench.report.document import Output, Section
from fairbench.report.sections.tuning import tuning_table

AGREE = "agree"
DIFFER = "DIFFER"
NOT_SHOWN = "not shown"

BUDGET_COLUMNS = (
    *ARM,
    words("Rates", "search"),
    integers("Settings", "settings"),
    integers("Search, trials", "sweep_trials"),
    integers("Search, steps", "sweep_steps"),
    integers("Final, trials", "final_trials"),
    integers("Final, steps", "final_steps"),
)


def _budget_caption(analyses: Analyses) -> str:
    """The caption of the table of budgets, which says whether they are equal."""
    equal = equality(analyses.of(budgets))
    return (
        f"Search and training of each arm: trials with a record, and their steps. Extensions of a grid count. {equal}"
    )


BUDGET_TABLE = Output[Analyses](
    name="budget",
    title="Trials and steps",
    rows=lambda analyses: analyses.of(budgets),
    columns=BUDGET_COLUMNS,
    caption=_budget_caption,
)

TUNING_TABLE = Output[Analyses](
    name="tuning",
    title="What tuning costs",
    rows=lambda analyses: analyses.of(tuning),
    view=tuning_table,
    kind=Tuning,
    always=True,
)

TREATMENT_COLUMNS = (
    *ARM,
    *page_only(words("From", "factory")),
    words("Clipping", "clipping"),
    words("Centralization", "centralization"),
    words("AGC", "adaptive_clipping"),
    words("Groups", "groups"),
    words("Schedule", "schedule"),
    words("Weight decay", "decay"),
    *page_only(words("Set by the suite", "options")),
)


def _treatments(analyses: Analyses) -> list[Budget]:
    """The treatment of each optimizer: one row if it is the same in all arenas, otherwise a row for each."""
    texts = [column.show for column in TREATMENT_COLUMNS[1:]]
    rows = []
    for optimizer in analyses.suite.optimizers:
        of_optimizer = [row for row in analyses.of(budgets) if row.optimizer == optimizer]
        different = {tuple(str(text(row)) for text in texts) for row in of_optimizer}
        if len(of_optimizer) > 1 and len(different) == 1:
            of_optimizer = [replace(of_optimizer[0], arena="all")]
        rows += of_optimizer
    return rows


TREATMENT_TABLE = Output[Analyses](
    name="treatment",
    title="Treatment",
    rows=lambda analyses: analyses.of(budgets),
    shown=_treatments,
    columns=TREATMENT_COLUMNS,
    caption=(
        "Treatment of each arm by the options that built it: clipping of the gradients’ global norm, "
        "gradient centralization, adaptive gradient clipping (AGC), parameter groups, the schedule of the rate, "
        "weight decay and whether it is coupled to the gradient."
    ),
)


@dataclass(frozen=True)
class Condition:
    """The checks of all seeds with the same answers, as one row; see `HashCheck`. `trials` are those of each seed."""

    arena: str
    stage: str
    seeds: str
    trials: int
    initial_weights: bool | None
    batches: bool | None
    noise: bool | None


CONDITION_COLUMNS = (
    words("Arena", "arena"),
    words("Stage", "stage"),
    words("Seeds", "seeds"),
    integers("Trials of each", "trials"),
    answers("Initial weights", "initial_weights", yes=AGREE, no=DIFFER, unknown=NOT_SHOWN),
    answers("Batch order", "batches", yes=AGREE, no=DIFFER, unknown=NOT_SHOWN),
    answers("Noise", "noise", yes=AGREE, no=DIFFER, unknown=NOT_SHOWN),
)


def _is_equal(check: HashCheck) -> bool:
    """Whether a group of trials has shown the same start and the same data."""
    return bool(check.agrees and check.initial_weights and check.batches)


def _equal_conditions(analyses: Analyses) -> str:
    """A sentence that all sha256 agree; empty if one of them differs or is not shown."""
    checks = analyses.of(hash_checks)
    if not checks:
        return ""
    if not all(map(_is_equal, checks)):
        return ""
    groups = plural(len(checks), "group")
    if len(checks) > 1:
        groups = f"all {groups}"
    origin = ""
    arenas = analyses.results.study.arenas
    if all(arenas[check.arena].starts for check in checks):
        origin = " (those of a process without an optimizer)"
    return (
        f"In {groups} of trials that share arena, stage and seed, the sha256 agree: of the initial weights"
        f"{origin}, and of batch order and noise of the trials that finished."
    )


def _unequal_conditions(analyses: Analyses) -> list[Condition]:
    """The groups of trials in which a sha256 differs or is not shown; seeds with the same answers are one row."""
    unequal = [check for check in analyses.of(hash_checks) if not _is_equal(check)]
    by_answers = grouped((replace(check, seed=0), check) for check in unequal)
    rows = []
    for checks in by_answers.values():
        facts = asdict(checks[0])
        del facts["seed"]
        seeds = ", ".join(str(check.seed) for check in checks)
        rows.append(Condition(seeds=seeds, **facts))
    return rows


CONDITIONS_TABLE = Output[Analyses](
    name="conditions",
    title="Conditions",
    rows=lambda analyses: analyses.of(hash_checks),
    shown=_unequal_conditions,
    columns=CONDITION_COLUMNS,
    caption=(
        "Groups of trials that share arena, stage and seed, in which a sha256 differs or is not shown. Initial weights "
        "are also compared with those of a process without an optimizer, batch order and noise among the trials that "
        "finished."
    ),
    finding=("Same start, same data", _equal_conditions),
)

BUDGET = Section[Analyses](
    name="budget",
    title="Budget and treatment",
    outputs=(BUDGET_TABLE, TUNING_TABLE, TREATMENT_TABLE, CONDITIONS_TABLE),
)

"""Time and memory of each arm."""

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import Cost, costs, is_timed
from fairbench.analysis.curves import equal_times
from fairbench.analysis.pair_times import PairTimes, pair_times
from fairbench.common.formatting import number, p_value
from fairbench.report.columns import ARM, aligned, integers, numbers, page_only, ratios, words
from fairbench.report.document import Output, Section
from fairbench.report.figures.step_time import draw_step_time
from fairbench.report.view import TextColumn

whole_number = "{:.0f}".format

PHASE_COLUMNS = (
    aligned("Data, ms", "data_ms"),
    aligned("Forward, ms", "forward_ms"),
    aligned("Backward, ms", "backward_ms"),
    aligned("Optimizer, ms", "step_ms"),
    *page_only(aligned("Evaluation, s", "eval_s")),
)


def _cost_columns(analyses: Analyses) -> list[TextColumn]:
    """The columns of the table of costs. The phases of a step are not known of a training program."""
    phases = () if _is_of_programs(analyses) else PHASE_COLUMNS
    return [
        *ARM,
        *page_only(integers("Trials", "trials")),
        aligned("Training step, ms", "train_ms"),
        *phases,
        numbers("Peak memory, MB", "peak_memory_mb", form=whole_number),
    ]


def _is_of_programs(analyses: Analyses) -> bool:
    """Whether all costs are those of training programs."""
    return all(cost.is_of_program for cost in analyses.of(costs))


def _cost_caption(analyses: Analyses) -> str:
    """The caption of the table of costs: how times were measured, and which optimizers ran fused."""
    if _is_of_programs(analyses):
        return (
            "Medians over the timing trials, in which the optimizers take turns. A step is the wall time of the "
            "program, its start included, over its steps. Peak memory is that of its largest process. Repeated timings "
            "differ, as other programs on the machine disturb them."
        )
    parts = [
        "Medians over the timing trials, in which the optimizers take turns and no mechanism is observed. A training "
        "step is data, forward, backward and optimizer; the optimizer’s part is clipping, step and schedule. Peak "
        "memory is that of torch’s tensors on a GPU, and that of the whole process on a CPU."
    ]
    if any(cost.is_of_program for cost in analyses.of(costs)):
        parts.append("Of a training program, a step is its wall time, start included, over its steps, without phases.")
    fused = [name for name, plan in analyses.suite.optimizers.items() if plan.options.get("fused")]
    if fused:
        names = " and ".join(fused)
        parts.append(f"Fused updates ran for {names}; all others ran as their libraries do by default.")
    else:
        parts.append("All optimizers ran as their libraries do by default.")
    parts.append("Repeated timings differ, as other programs on the machine disturb them.")
    return " ".join(parts)


def _timed_costs(analyses: Analyses) -> list[Cost]:
    """The costs of the arms with timing trials."""
    return [cost for cost in analyses.of(costs) if cost.trials]


def _not_timed(analyses: Analyses) -> list[str]:
    """A sentence on what is missing in a study without timing trials; empty with some, and before any trial."""
    if is_timed(analyses) or not analyses.of(costs):
        return []
    if analyses.suite.noun == "variant":
        return ["This study has no timing trials, so only the times of pairs are compared."]
    return [
        "This study has no timing trials, so no times of a step are compared. Final trials observe the mechanisms of "
        "optimizers, which takes time, and the arms train one after the other. The same command with --timing adds "
        "short trials without observation, in which the optimizers take turns."
    ]


STEP_TIME_FIGURE = Output[Analyses](name="step_time", figure=draw_step_time)

COST_TABLE = Output[Analyses](
    name="cost",
    title="Time and memory",
    rows=lambda analyses: analyses.of(costs),
    shown=_timed_costs,
    columns=_cost_columns,
    caption=_cost_caption,
    kind=Cost,
    always=True,
    texts=_not_timed,
)

PAIR_TIME_COLUMNS = (
    *ARM,
    words("Baseline", "baseline"),
    integers("Pairs", "pairs"),
    words("Verdict", "verdict"),
    ratios("Time of a trial", "trial_ratio", "trial_low", "trial_high", digits=3),
    ratios("Time of a step", "step_ratio", "step_low", "step_high", digits=3),
    numbers("Holm p", "p_holm", form=p_value),
    *page_only(words("Note", "note")),
)

PAIR_TIMES_TABLE = Output[Analyses](
    name="pair_times",
    title="Time of pairs",
    rows=lambda analyses: analyses.of(pair_times),
    columns=PAIR_TIME_COLUMNS,
    caption=(
        "Time of the optimizer divided by that of its baseline: geometric mean over pairs, with the interval that "
        "decides. Only pairs count whose trials ran next to each other while no other process used the machine. "
        "Faster and slower: the interval for a trial excludes 1; it is corrected for the number of comparisons (Holm)."
    ),
    kind=PairTimes,
)

EQUAL_TIME_COLUMNS = (
    *ARM,
    words("Metric", "metric"),
    aligned("Training time, s", "seconds"),
    numbers("Steps by then", "steps", form=whole_number),
    numbers("Value then", "value", form=number),
    numbers("Value at its end", "final", form=number),
)


def _equal_time_caption(analyses: Analyses) -> str:
    """The caption of the table of values at equal time."""
    split = analyses.suite.selection_name.capitalize()
    return (
        "Every arm after the training time that the fastest of its arena needs for all its steps, evaluation "
        "and start not counted: steps times the milliseconds of a step. "
        f"{split} split, mean over the final seeds, linear between evaluations. "
        "A slower arm is then not at the end of its schedule; with one for that time it would do better."
    )


EQUAL_TIME_TABLE = Output[Analyses](
    name="equal_time",
    title="At equal time",
    rows=lambda analyses: analyses.of(equal_times),
    columns=EQUAL_TIME_COLUMNS,
    caption=_equal_time_caption,
)

COST = Section[Analyses](
    name="cost",
    title="Cost",
    outputs=(STEP_TIME_FIGURE, COST_TABLE, PAIR_TIMES_TABLE, EQUAL_TIME_TABLE),
)

"""The time and memory of training."""

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import Cost, costs
from fairbench.analysis.curves import equal_times
from fairbench.common.formatting import number
from fairbench.report.document import Output, Section
from fairbench.report.figures.step_time import draw_step_time
from fairbench.report.view import ARM, aligned, integers, numbers, page_only, words

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


def _at_equal_time(analyses: Analyses) -> str:
    return (
        "Every arm after the training time that the fastest of its arena needs for all its steps, evaluation and start "
        f"not counted: steps times the milliseconds of a step. {analyses.suite.selection_name.capitalize()} split, "
        "mean over the final seeds, linear between evaluations. A slower arm is then not at the end of its schedule; "
        "with one for that time it would do better."
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
                numbers("Value then", "value", number),
                numbers("Value at its end", "final", number),
            ),
            _at_equal_time,
        ),
    ),
)

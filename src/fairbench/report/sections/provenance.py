"""What was run: arenas, optimizers, training, plans, machine and versions."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.common.formatting import exact, plural, rate
from fairbench.data.datasets.registry import DATASETS
from fairbench.optimizers.registry import known_optimizers
from fairbench.report.document import Output, Section
from fairbench.report.view import Column, TableView, page_only, table_view
from fairbench.study.environments import environment_values


def arena_table(analyses: Analyses) -> TableView:
    """The task, data and training of each arena."""
    suite = analyses.suite

    def planned(title: str, attribute: str, form: Callable[[Any], str] = str) -> Column:
        value: Callable[[str], Any] = lambda name: getattr(suite.arenas[name], attribute)  # noqa: E731
        return Column(title, lambda name: form(value(name)), value)

    def metric(name: str) -> str:
        return f"{suite.arenas[name].metric} ({suite.better(name)})"

    def data(name: str) -> str:
        source = suite.arenas[name].data.get("source")
        return DATASETS[source].title if source else "defined by the arena"

    columns = (
        Column("Arena", str),
        Column("Task", lambda name: suite.facts(name).title),
        Column("Data", data),
        *page_only(Column("Data’s sha256", lambda name: analyses.results.study.arenas[name].fingerprint[:12])),
        Column("Primary metric", metric),
        planned("Margin", "margin", exact),
        planned("Steps", "steps"),
        planned("Sweep steps", "sweep_steps"),
        planned("Batch size", "batch_size"),
    )
    sources = dict.fromkeys(plan.data.get("source") for plan in suite.arenas.values())
    faults = [f" In {x}, {DATASETS[x].fault}." for x in sources if x in DATASETS and DATASETS[x].fault]
    return table_view("arenas", f"Arenas.{''.join(faults)}", columns, suite.arenas)


def optimizer_table(analyses: Analyses) -> TableView:
    """The optimizers with the options that the suite and fairbench set."""
    suite, resolved = analyses.suite, analyses.results.study.optimizers

    def chosen(name: str) -> Iterator[str]:
        plan = suite.optimizers[name]
        yield _listed(plan.options)
        yield from (f"in {arena}: {_listed(options)}" for arena, options in plan.arenas.items())

    def added(name: str) -> str:
        plan, facts = suite.optimizers[name], known_optimizers().get(name)
        names = facts.options if facts and not plan.factory else ()
        options = resolved[name].options
        return _listed({key: options[key] for key in names if key in options and key not in plan.options})

    columns = (
        Column("Optimizer", str),
        Column("From", lambda name: resolved[name].factory),
        Column("Set by the suite", lambda name: "; ".join(chosen(name))),
        Column("Set by fairbench", added),
    )
    caption = (
        "Optimizers; options that neither the suite nor fairbench sets keep their defaults. Records have all options."
    )
    return table_view("optimizers", caption, columns, suite.optimizers)


def _listed(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in options.items()) or "nothing"


def _training(analyses: Analyses) -> Iterator[str]:
    """What all trials have in common, and each plan of the study."""
    suite, history = analyses.suite, analyses.history
    training = suite.training
    linear = f"linear learning-rate warm-up over {training.warmup_steps} steps, then "
    warmup = linear if training.warmup_steps else "learning rate by "
    clipped = f"gradients clipped to a global norm of {rate(training.clip_norm)}"
    clipping = clipped if training.clip_norm > 0 else "no clipping"
    sweep, final = (", ".join(map(str, seeds)) for seeds in (suite.sweep.seeds, suite.final.seeds))
    yield (
        f"All trials: {warmup}the schedule of the table “treatment”; {clipping}. Sweep seeds {sweep}; "
        f"final seeds {final}."
    )
    for plan in history.plans:
        declared = f" declared {plan.declared}" if plan.declared else ""
        yield f"Plan{declared}, when {plural(plan.final_trials, 'final trial')} had a record."
    if history.frozen:
        yield f"Frozen; sha256 {history.frozen}."


def environment_table(analyses: Analyses) -> TableView:
    """Machine and versions, with all values over the records; those of the study where there are no records."""
    results = analyses.results
    facts = results.environment or environment_values([results.study.environment])
    mixed = ", ".join(fact for fact, values in facts.items() if len(values) > 1)
    caption = "Machine and versions, from the records."
    if mixed:
        caption += f" Not all trials ran in the same environment; they differ in: {mixed}."
    columns = (Column("Fact", str), Column("Value", lambda fact: " / ".join(facts[fact])))
    return table_view("environment", caption, columns, facts)


PROVENANCE = Section[Analyses](
    "provenance",
    "What was run",
    (
        Output("arenas", "Arenas", view=arena_table),
        Output("optimizers", "Optimizers", view=optimizer_table, texts=_training),
        Output("environment", "Machine and versions", view=environment_table),
    ),
)

"""What was run: arenas, optimizers, training, plans, machine and versions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.common.formatting import NONE, exact, plural, rate, short_hash
from fairbench.common.git_revision import CHANGES
from fairbench.data.datasets.registry import DATASETS
from fairbench.optimizers.registry import known_optimizers
from fairbench.optimizers.variant import VariantPlan
from fairbench.report.columns import page_only
from fairbench.report.document import Output, Section
from fairbench.report.view import TableView, TextColumn, table_view
from fairbench.study.environments import environment_values
from fairbench.suites.schema import Suite


def arena_table(analyses: Analyses) -> TableView:
    """The table of the task, the data and the training of each arena."""
    suite = analyses.suite
    arenas = analyses.results.study.arenas

    def task(name: str) -> str:
        return suite.facts(name).title

    def data(name: str) -> str:
        source = suite.arenas[name].data.get("source")
        return DATASETS[source].title if source else "defined by the arena"

    def data_hash(name: str) -> str:
        return short_hash(arenas[name].fingerprint)

    def metric(name: str) -> str:
        return f"{suite.arenas[name].metric} ({suite.better(name)})"

    of_search = []
    if suite.searches:
        of_search.append(_plan_column(suite, "Sweep steps", "sweep_steps"))
    columns = (
        TextColumn("Arena", str),
        TextColumn("Task", task),
        TextColumn("Data", data),
        *page_only(TextColumn("Data’s sha256", data_hash)),
        TextColumn("Primary metric", metric),
        _plan_column(suite, "Margin", "margin", form=exact),
        _plan_column(suite, "Steps", "steps"),
        *of_search,
        _plan_column(suite, "Batch size", "batch_size"),
    )
    sentences = ["The task, the data and the training of each arena.", *_own_lengths(suite), *_data_faults(suite)]
    caption = "".join(sentences)
    return table_view("arenas", caption, columns, rows=suite.arenas)


def _plan_column(suite: Suite, title: str, attribute: str, form: Callable[[Any], str] = str) -> TextColumn:
    """A column with a number from the plan of each arena, which `form` writes; a dash where it is not used."""

    def value(arena: str) -> Any:
        plan = suite.arenas[arena]
        unused = []
        if plan.model.get("own_length"):
            unused += ["steps", "sweep_steps"]
        if not plan.batch_size:
            unused.append("batch_size")
        if attribute in unused:
            return None
        return getattr(plan, attribute)

    def text(arena: str) -> str:
        found = value(arena)
        if found is None:
            return NONE
        return form(found)

    return TextColumn(title, text, value=value)


def _own_lengths(suite: Suite) -> Iterator[str]:
    """A sentence on the programs that get no number of steps."""
    if any(plan.model.get("own_length") for plan in suite.arenas.values()):
        yield " A program without a number of steps trains as long as it always does."


def _data_faults(suite: Suite) -> Iterator[str]:
    """A sentence on each known fault of the data."""
    sources = dict.fromkeys(plan.data.get("source") for plan in suite.arenas.values())
    for source in sources:
        if source in DATASETS and DATASETS[source].fault:
            yield f" In {source}, {DATASETS[source].fault}."


def optimizer_table(analyses: Analyses) -> TableView:
    """The table of the optimizers, with the options that the suite and fairbench set."""
    suite = analyses.suite
    resolved = analyses.results.study.optimizers
    if suite.noun == "variant":
        return _variant_table(suite)

    def factory(name: str) -> str:
        return resolved[name].factory

    def set_by_suite(name: str) -> str:
        plan = suite.optimizers[name]
        parts = [_listed(plan.options)]
        for arena, options in plan.arenas.items():
            parts.append(f"in {arena}: {_listed(options)}")
        return "; ".join(parts)

    def set_by_fairbench(name: str) -> str:
        plan = suite.optimizers[name]
        options = resolved[name].options
        defaults = _defaults_of_fairbench(name, plan.factory)
        return _listed({key: options[key] for key in defaults if key in options and key not in plan.options})

    columns = (
        TextColumn("Optimizer", str),
        TextColumn("From", factory),
        TextColumn("Set by the suite", set_by_suite),
        TextColumn("Set by fairbench", set_by_fairbench),
    )
    caption = (
        "Optimizers; options that neither the suite nor fairbench sets keep their defaults. Records have all options."
    )
    return table_view("optimizers", caption, columns, rows=suite.optimizers)


def _variant_table(suite: Suite) -> TableView:
    """The table of the variants of a program, with what each of them changes."""

    def variant(name: str) -> VariantPlan:
        plan = suite.optimizers[name].variant
        assert plan is not None
        return plan

    def words(name: str) -> str:
        return variant(name).args

    def values(name: str) -> str:
        options = suite.optimizers[name].options
        return ", ".join(f"{{{key}}} = {value}" for key, value in options.items())

    def variables(name: str) -> str:
        return " ".join(f"{key}={value}" for key, value in variant(name).env.items())

    def code(name: str) -> str:
        plan = variant(name)
        if plan.commit:
            return f"{plan.revision} ({short_hash(plan.commit)})"
        return plan.revision or plan.folder

    columns = [TextColumn("Variant", str), TextColumn("Words of the command", words)]
    if any(suite.optimizers[name].options for name in suite.optimizers):
        columns.append(TextColumn("Values of placeholders", values))
    if any(variant(name).env for name in suite.optimizers):
        columns.append(TextColumn("Environment variables", variables))
    if any(code(name) for name in suite.optimizers):
        columns.append(TextColumn("Revision or folder", code))
    programs = [plan.model["program"] for plan in suite.arenas.values()]
    caption = f"Variants of {'; '.join(programs)}. An empty cell means that nothing is changed."
    return table_view("optimizers", caption, columns, rows=suite.optimizers)


def _defaults_of_fairbench(name: str, factory: str) -> Iterable[str]:
    """The names of the options that fairbench sets for a known optimizer; none if the suite names a factory."""
    known = known_optimizers()
    if factory or name not in known:
        return ()
    return known[name].options


def _listed(options: Mapping[str, Any]) -> str:
    """Options with their values, in words."""
    if not options:
        return "nothing"
    return ", ".join(f"{key} = {value}" for key, value in options.items())


def _training(analyses: Analyses) -> Iterator[str]:
    """Sentences on what all trials have in common, and on each plan of the study."""
    suite = analyses.suite
    history = analyses.history
    sweep_seeds = ", ".join(map(str, suite.sweep.seeds))
    final_seeds = ", ".join(map(str, suite.final.seeds))
    if suite.noun == "variant":
        yield f"Final seeds {final_seeds}."
    else:
        yield (
            f"All trials: {_warm_up(suite)}the schedule of the table “treatment”; {_clipping(suite)}. Sweep seeds "
            f"{sweep_seeds}; final seeds {final_seeds}."
        )
    for folder, revision in analyses.results.study.program_revisions.items():
        yield _program_revision(folder, revision)
    for plan in history.plans:
        declared = f" declared {plan.declared}" if plan.declared else ""
        yield f"Plan{declared}, when {plural(plan.final_trials, 'final trial')} had a record."
    if history.frozen:
        yield f"Frozen; sha256 {history.frozen}."


def _program_revision(folder: str, revision: str) -> str:
    """A sentence on the commit of a program, and on the files of its code that differ from it."""
    place = f" in {folder}" if folder else ""
    commit, has_changes, files = revision.partition(CHANGES)
    changes = f", with uncommitted changes{files}" if has_changes else ""
    return f"Program{place}: commit {commit[:12]} of its git repository when the study began{changes}."


def _warm_up(suite: Suite) -> str:
    """The warm-up in words, before the schedule is named."""
    steps = suite.training.warmup_steps
    if not steps:
        return "learning rate by "
    return f"linear learning-rate warm-up over {steps} steps, then "


def _clipping(suite: Suite) -> str:
    """The clipping of gradients in words."""
    norm = suite.training.clip_norm
    if norm > 0:
        return f"gradients clipped to a global norm of {rate(norm)}"
    return "no clipping"


def environment_table(analyses: Analyses) -> TableView:
    """The table of machine and versions, with all values in the records; without records, those of the study."""
    results = analyses.results
    facts = results.environment or environment_values([results.study.environment])

    def value(fact: str) -> str:
        return " / ".join(facts[fact])

    columns = (TextColumn("Fact", str), TextColumn("Value", value))
    caption = "Machine and versions, from the records; git is the revision of fairbench, if it runs from a checkout."
    mixed = [fact for fact, values in facts.items() if len(values) > 1]
    if mixed:
        caption += f" Not all trials ran in the same environment; they differ in: {', '.join(mixed)}."
    return table_view("environment", caption, columns, rows=facts)


PROVENANCE = Section[Analyses](
    name="provenance",
    title="What was run",
    outputs=(
        Output(name="arenas", title="Arenas", view=arena_table),
        Output(name="optimizers", title="Optimizers", view=optimizer_table, texts=_training),
        Output(name="environment", title="Machine and versions", view=environment_table),
    ),
)

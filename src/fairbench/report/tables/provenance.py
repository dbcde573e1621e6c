"""The tables of budget, treatment and provenance."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparability import HashCheck, hash_checks
from fairbench.analysis.results import Results, Run
from fairbench.data.datasets.registry import DATASETS
from fairbench.optimizers.resolve import known_optimizers
from fairbench.report.tables.budget import Budget, budgets, equality
from fairbench.report.tables.model import ARM, Column, TableView, integers, numbers, page_only, table_view, words
from fairbench.report.tables.numbers import exact, rate
from fairbench.study.environments import environment_values


def provenance_tables(analyses: Analyses) -> list[TableView]:
    """All tables of this module, in the order of the report."""
    results = analyses.results
    arms = budgets(results)
    return [
        budget_table(arms),
        treatment_table(arms),
        condition_table(analyses.of(hash_checks)),
        lost_table(results),
        arena_table(results),
        optimizer_table(results),
        environment_table(results),
    ]


def budget_table(arms: Sequence[Budget]) -> TableView:
    """The search and training budget of each arm."""
    confirms = any(arm.confirm_trials for arm in arms)
    caption = (
        "Search and training of each arm: trials with a record, and their steps. Extensions of a grid count. "
        f"{equality(arms)}"
    )
    columns = (
        *ARM,
        words("Rates", "search"),
        integers("Settings", "settings"),
        integers("Search, trials", "sweep_trials"),
        integers("Search, steps", "sweep_steps"),
        *(integers(f"Confirmation, {x}", f"confirm_{x}") for x in ("trials", "steps") if confirms),
        integers("Final, trials", "final_trials"),
        integers("Final, steps", "final_steps"),
    )
    return table_view("budget", caption, columns, arms)


def treatment_table(arms: Sequence[Budget]) -> TableView:
    """The treatment of gradients and weights in each arm."""
    caption = (
        "Treatment of each arm by the options that built it: clipping of the gradients’ global norm, "
        "gradient centralization, adaptive gradient clipping (AGC), parameter groups, the schedule of the rate, weight "
        "decay and whether it is coupled to the gradient."
    )
    columns = (
        *ARM,
        *page_only(words("From", "factory")),
        *(words(x.capitalize(), x) for x in ("clipping", "centralization")),
        words("AGC", "adaptive_clipping"),
        *(words(x.capitalize(), x) for x in ("groups", "schedule")),
        words("Weight decay", "decay"),
        *page_only(words("Set by the suite", "options")),
    )
    return table_view("treatment", caption, columns, arms)


def condition_table(checks: Sequence[HashCheck]) -> TableView:
    """Whether all trials had the same start and the same data."""
    caption = (
        "Whether the sha256 of trials agree that share arena, stage and seed; initial weights also with those of a "
        "process without an optimizer, batch order and noise among the trials that finished."
    )
    columns = (
        words("Arena", "arena"),
        words("Stage", "stage"),
        integers("Seed", "seed"),
        integers("Trials", "trials"),
        Column("Initial weights", lambda check: "agree" if check.initial_weights else "DIFFER"),
        Column("Batch order", lambda check: "agree" if check.batches else "DIFFER"),
        Column("Noise", lambda check: "agree" if check.noise else "DIFFER"),
    )
    return table_view("conditions", caption, columns, checks)


def lost_table(results: Results) -> TableView:
    """Trials that diverged or failed."""
    columns = (
        *ARM,
        words("Stage", "stage"),
        numbers("Learning rate", "lr", rate),
        numbers("Weight decay", "weight_decay", rate),
        integers("Seed", "seed"),
        Column("Outcome", _outcome),
    )
    caption = "Trials that diverged or failed."
    return table_view("lost", caption, columns, results.select(lambda run: run.status in ("failed", "diverged")))


def _outcome(run: Run) -> str:
    if run.result:
        return f"diverged, detected at step {run.result.steps}"
    return f"failed, {run.error}"


def arena_table(results: Results) -> TableView:
    """The task, data and training of each arena."""
    suite = results.study.suite

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
        *page_only(Column("Data’s sha256", lambda name: results.study.arenas[name].fingerprint[:12])),
        Column("Primary metric", metric),
        planned("Margin", "margin", exact),
        planned("Steps", "steps"),
        planned("Sweep steps", "sweep_steps"),
        planned("Batch size", "batch_size"),
    )
    sources = dict.fromkeys(plan.data.get("source") for plan in suite.arenas.values())
    faults = [f" In {x}, {DATASETS[x].fault}." for x in sources if x in DATASETS and DATASETS[x].fault]
    return table_view("arenas", f"Arenas.{''.join(faults)}", columns, suite.arenas)


def optimizer_table(results: Results) -> TableView:
    """The optimizers with the options that the suite and fairbench set."""
    suite, resolved = results.study.suite, results.study.optimizers

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


def environment_table(results: Results) -> TableView:
    """Machine and versions, with all values over the records; those of the study where there are no records."""
    measured = results.select(lambda run: run.result is not None)
    facts = environment_values(run.environment for run in measured) or environment_values([results.study.environment])
    mixed = ", ".join(fact for fact, values in facts.items() if len(values) > 1)
    caption = "Machine and versions, from the records."
    if mixed:
        caption += f" Not all trials ran in the same environment; they differ in: {mixed}."
    columns = (Column("Fact", str), Column("Value", lambda fact: " / ".join(facts[fact])))
    return table_view("environment", caption, columns, facts)


def trial_counts(rows: Iterable[Run]) -> dict[str, Counter[str]]:
    """The number of trials of each arena and optimizer."""
    counts: dict[str, Counter[str]] = {}
    for run in rows:
        counts.setdefault(run.arena, Counter())[run.optimizer] += 1
    return counts

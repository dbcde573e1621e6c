"""The tables of what each arm got and of what was run: which rows, which columns, in which words."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fairbench.analysis.comparability import hash_checks
from fairbench.analysis.results import Results, Run
from fairbench.data.registry import SOURCES
from fairbench.optimizers.resolve import known_optimizers
from fairbench.report.tables.budget import equality, ledger
from fairbench.report.tables.model import ARM, Column, Grid, Row, count, grid, numbers, words
from fairbench.report.tables.numbers import rate
from fairbench.study.environments import environment_values


def provenance_grids(results: Results) -> list[Grid]:
    """Every such table, in the order of the report."""
    return [
        budget_grid(results),
        treatment_grid(results),
        condition_grid(results),
        lost_grid(results),
        arena_grid(results),
        optimizer_grid(results),
        environment_grid(results),
    ]


def budget_grid(results: Results) -> Grid:
    """What each arm got to search and to train."""
    shares = ledger(results)
    caption = (
        "Search and training that each arm got: trials with a record, and their steps. Extensions of a grid count. "
        f"{equality(shares)}"
    )
    columns = (
        *ARM,
        words("Rates", "search"),
        count("Settings", "settings"),
        count("Search, trials", "sweep_trials"),
        count("Search, steps", "sweep_steps"),
        count("Final, trials", "final_trials"),
        count("Final, steps", "final_steps"),
    )
    return grid("budget", caption, columns, shares)


def treatment_grid(results: Results) -> Grid:
    """What is done to gradients and weights in each arm."""
    caption = (
        "Treatment of each arm, as the options say that it was built with: clipping of the gradients’ global norm, "
        "gradient centralization, adaptive gradient clipping (AGC), parameter groups, the schedule of the rate, weight "
        "decay and whether it is coupled to the gradient."
    )
    columns = (
        *ARM,
        words("From", "factory"),
        words("Clipping", "clipping"),
        words("Centralization", "centralization"),
        words("AGC", "adaptive_clipping"),
        words("Groups", "groups"),
        words("Schedule", "schedule"),
        words("Weight decay", "decay"),
        words("Set by the suite", "options"),
    )
    return grid("treatment", caption, columns, ledger(results))


def condition_grid(results: Results) -> Grid:
    """Whether all had the same start and the same data."""
    caption = (
        "Whether the sha256 of trials agree that share arena, stage and seed; initial weights also with those of a "
        "process that knew no optimizer, batch order and noise among the trials that finished."
    )

    def same(title: str, attribute: str) -> Column:
        return Column(title, lambda check: "agree" if getattr(check, attribute) else "DIFFER")

    columns = (
        words("Arena", "arena"),
        words("Stage", "stage"),
        count("Seed", "seed"),
        count("Trials", "trials"),
        same("Initial weights", "initial_weights"),
        same("Batch order", "batches"),
        same("Noise", "noise"),
    )
    return grid("conditions", caption, columns, hash_checks(results))


def lost_grid(results: Results) -> Grid:
    """Trials that diverged or failed."""
    columns = (
        *ARM,
        words("Stage", "stage"),
        numbers("Learning rate", "lr", rate),
        numbers("Weight decay", "weight_decay", rate),
        count("Seed", "seed"),
        Column("What became of it", what_became),
    )
    caption = "Trials that diverged or failed."
    return grid("lost", caption, columns, results.select(lambda run: run.status in ("failed", "diverged")))


def what_became(run: Run) -> str:
    """The end of a trial that diverged or failed, in a few words."""
    if run.status == "diverged":
        return f"diverged, found at step {(run.result or {})['steps']}"
    error = (run.record or {})["error"]
    return f"failed, {error['type']}: {error['message']}"


def arena_grid(results: Results) -> Grid:
    """The tasks."""
    suite = results.study.suite

    def of_plan(attribute: str) -> Callable[[Row], Any]:
        return lambda name: getattr(suite.arenas[name], attribute)

    def metric(name: str) -> str:
        chosen = suite.arenas[name].metric
        return f"{chosen} ({'lower' if suite.facts(name).metrics[chosen] == 'min' else 'higher'} is better)"

    def data(name: str) -> str:
        source = suite.arenas[name].data.get("source")
        return SOURCES[source].title if source else "the arena’s own"

    columns = (
        Column("Arena", str),
        Column("Task", lambda name: suite.facts(name).title),
        Column("Data", data),
        Column("Data’s sha256", lambda name: results.study.arenas[name].fingerprint[:12]),
        Column("Primary metric", metric),
        Column("Margin", lambda name: rate(suite.arenas[name].margin), of_plan("margin")),
        Column("Steps", lambda name: str(suite.arenas[name].steps), of_plan("steps")),
        Column("Sweep steps", lambda name: str(suite.arenas[name].sweep_steps), of_plan("sweep_steps")),
        Column("Batch size", lambda name: str(suite.arenas[name].batch_size), of_plan("batch_size")),
    )
    return grid("arenas", "Arenas.", columns, suite.arenas)


def optimizer_grid(results: Results) -> Grid:
    """The optimizers, as the suite declares them, and what fairbench adds to that."""
    suite, resolved = results.study.suite, results.study.optimizers

    def told(name: str) -> Iterator[str]:
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
        Column("Set by the suite", lambda name: "; ".join(told(name))),
        Column("Set by fairbench", added),
    )
    caption = (
        "Optimizers; what neither the suite nor fairbench sets keeps its default, and every record states all of it."
    )
    return grid("optimizers", caption, columns, suite.optimizers)


def _listed(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in options.items()) or "nothing"


def environment_grid(results: Results) -> Grid:
    """Machine and versions, with all values over the records; the study's own where there are no records."""
    measured = results.select(lambda run: run.result is not None)
    facts = environment_values(run.environment for run in measured) or environment_values([results.study.environment])
    mixed = ", ".join(fact for fact, values in facts.items() if len(values) > 1)
    caption = "Machine and versions, from the records."
    if mixed:
        caption += f" Not all trials ran on the same ground, they differ in: {mixed}."
    columns = (Column("Fact", str), Column("Value", lambda fact: " / ".join(facts[fact])))
    return grid("environment", caption, columns, facts)


def groups_of(rows: Iterable[Run]) -> dict[str, dict[str, int]]:
    """How many trials there are of each arena and optimizer."""
    found: dict[str, dict[str, int]] = {}
    for run in rows:
        of_arena = found.setdefault(run.arena, {})
        of_arena[run.optimizer] = of_arena.get(run.optimizer, 0) + 1
    return found

"""Checks of single keys of a suite: known words, and names."""

import re
from collections.abc import Iterable, Sequence

from fairbench.arenas.base import ArenaFacts
from fairbench.arenas.registry import ARENAS
from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.common.coercion import KeyPath, Wrong
from fairbench.common.errors import unknown
from fairbench.data.datasets.registry import DATASETS
from fairbench.optimizers.needs import METHODS, NEEDS, names_methods
from fairbench.optimizers.registry import OPTIMIZERS, known_optimizers
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.optimizers.treatments import SCHEDULES
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.compare import ALL
from fairbench.suites.ranges import MOST, check_ranges
from fairbench.suites.schema import ALL_ARENAS, RULES, Suite
from fairbench.suites.stages import SPENDING, TESTS

PRECISIONS = ("float32", "bfloat16")
MISSING = {"na", "n/a", "#na", "#n/a", "#n/a n/a", "<na>", "nan", "-nan", "null", "none"}
MISSING |= {"1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
"""Words that pandas or R read as a missing value, in lower case."""


def check_values(suite: Suite) -> None:
    """Raise `Wrong` for the first value out of its range or unknown, or for a name that a file would change."""
    check_ranges(suite)
    check_known(("breaks",), "rule", suite.breaks, RULES)
    check_known(("final", "spending"), "spending", [suite.final.spending], SPENDING)
    check_known(("final", "test"), "test", [suite.final.test], TESTS)
    check_known(("training", "precision"), "precision", [suite.training.precision], PRECISIONS)
    check_known(("training", "schedule"), "schedule", [suite.training.schedule], SCHEDULES)
    for name, arena in suite.arenas.items():
        _check_arena(suite, name, arena)
    for name, optimizer in suite.optimizers.items():
        _check_optimizer(name, optimizer)


def _check_arena(suite: Suite, name: str, arena: ArenaPlan) -> None:
    """Raise `Wrong` for the first wrong name or unknown word in an arena."""
    path = ("arenas", name)
    _check_arena_name(path, name)
    if arena.facts is None:
        task_path = (*path, "task") if arena.task else path
        check_known(task_path, "arena", [suite.task(name)], ARENAS)
    facts = suite.facts(name)
    for metric in facts.metrics:
        _check_name((*path, "metric"), metric)
    check_known((*path, "metric"), "metric", [arena.metric], facts.metrics)
    if arena.schedule:
        check_known((*path, "schedule"), "schedule", [arena.schedule], SCHEDULES)
    if arena.tuning_arena:
        check_known((*path, "tuning_arena"), "arena", [arena.tuning_arena], suite.arenas)
    if "source" in arena.data or arena.facts is None:
        _check_source((*path, "data", "source"), str(arena.data.get("source")), facts)
    if arena.shock:
        kind = str(arena.shock.get("kind"))
        fitting = [key for key, shock in SHOCKS.items() if facts.kind in shock.kinds]
        check_known((*path, "shock", "kind"), "shock for this arena", [kind], fitting)


def _check_arena_name(path: KeyPath, name: str) -> None:
    """Raise `Wrong` for a name that an arena must not have."""
    if not re.fullmatch(r"[\w.\- ]+", name):  # other characters are a problem on a command line
        raise Wrong(path, f"must be made of letters, digits, spaces, '_', '-' and '.', got {name!r}")
    if name == ALL_ARENAS:
        raise Wrong(path, f"must not be {ALL_ARENAS!r}, which stands for all of them in tables; rename it")
    _check_name(path, name)


def _check_source(path: KeyPath, source: str, facts: ArenaFacts) -> None:
    """Raise `Wrong` unless a source has data of the kind that an arena reads, with labels if the arena needs them."""
    fitting = []
    for name, dataset in DATASETS.items():
        has_needed_labels = dataset.labelled or not facts.labelled
        if dataset.kind == facts.kind and has_needed_labels:
            fitting.append(name)
    remark = ""
    if facts.kind == "own":
        remark = "; the arena's facts have no kind = 'images' or 'text'"
    check_known(path, "source for this arena", [source], fitting, remark)


def _check_optimizer(name: str, plan: OptimizerPlan) -> None:
    """Raise `Wrong` for a wrong name or unknown word in the plan of an optimizer."""
    path = ("optimizers", name)
    _check_name(path, name)
    if name == ALL:
        raise Wrong(path, f"must not be {ALL!r}, which stands for every optimizer in compare.baselines; rename it")
    if not plan.factory and name not in OPTIMIZERS:
        custom = '; a custom one needs factory = "module:Class"'
        check_known(path, "optimizer", [name], known_optimizers(), custom)
    if plan.schedule is not None:
        check_known((*path, "schedule"), "schedule", [plan.schedule], SCHEDULES)
    if plan.needs:
        words = [need for need in plan.needs if not names_methods(need)]
        check_known((*path, "needs"), "need of the training loop", words, [*NEEDS, *METHODS])


def check_references(suite: Suite) -> None:
    """Raise `Wrong` for the first arena or optimizer that the suite does not have, or that a list repeats."""
    for name, optimizer in suite.optimizers.items():
        for arena in optimizer.arenas:
            check_known(("optimizers", name, "arenas", arena), "arena", [arena], suite.arenas)
    check_known(("reference",), suite.noun, [suite.reference], suite.optimizers)
    for key, names in vars(suite.compare).items():
        are_all = key == "baselines" and names == [ALL]
        if not are_all:
            check_known(("compare", key), suite.noun, names, suite.optimizers)
        if _has_duplicates(names):
            raise Wrong(("compare", key), f"must name each optimizer once, got {names}")
    if len(suite.optimizers) > 1 and not suite.pairs:
        raise Wrong(("compare",), "has no pair of two; name an optimizer and another one as its baseline")
    check_known(("controls",), "optimizer", suite.controls, suite.optimizers)
    if len(suite.controls) == 1 or _has_duplicates(suite.controls):
        raise Wrong(("controls",), f"must have two or more optimizers, each once, got {suite.controls}")


def _has_duplicates(names: Sequence[str]) -> bool:
    """Whether a name occurs twice."""
    return len(set(names)) < len(names)


def check_known(path: KeyPath, kind: str, words: Iterable[str], known: Iterable[str], remark: str = "") -> None:
    """Raise `Wrong` for the first word that is unknown. `kind` says what the words name."""
    for word in words:
        if word not in known:
            raise Wrong(path, f"{unknown(kind, word, known)}{remark}")


def check_rising(path: KeyPath, values: Sequence[float]) -> None:
    """Raise `Wrong` unless the values of a key are positive and rise."""
    in_range = all(0 < value <= MOST for value in values)
    rising = list(values) == sorted(set(values))
    if not values or not rising or not in_range:
        raise Wrong(path, f"must be positive numbers that rise, got {values}")


def _check_name(path: KeyPath, name: str) -> None:
    """Raise `Wrong` unless every file can keep the name of an arena, an optimizer or a metric unchanged."""
    single_spaced = " ".join(name.split())
    if not name.isprintable() or single_spaced != name or not name:
        raise Wrong(path, f"must be printable and not blank, without spaces at its ends or in a row, got {name!r}")
    if name[0] in "=@":
        raise Wrong(path, f"must not begin with '=' or '@', which spreadsheets compute; rename {name!r}")
    if name.lower() in MISSING:
        raise Wrong(path, f"must not be a word that programs read as a missing value; rename {name!r}")

"""Checks of single keys of a suite: ranges, known words, and names."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from fairbench.arenas.registry import ARENAS
from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.common.coercion import KeyPath, Wrong
from fairbench.common.errors import unknown
from fairbench.data.datasets.registry import DATASETS
from fairbench.optimizers.needs import METHODS, NEEDS, names_methods
from fairbench.optimizers.registry import OPTIMIZERS, known_optimizers
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.optimizers.treatments import SCHEDULES
from fairbench.suites.schema import ALL, ALL_ARENAS, RULES, ArenaPlan, Suite
from fairbench.suites.stages import SPENDING, TESTS

MOST = 10**9
"""Upper bound of steps, examples and sizes; anything larger is a typo."""
REHEARSED = 3
"""Steps that the rehearsal takes with every optimizer; a final trial must have as many."""
MISSING = {"na", "n/a", "#na", "#n/a", "#n/a n/a", "<na>", "nan", "-nan", "null", "none"}
MISSING |= {f"{sign}1.#{word}" for sign in ("", "-") for word in ("ind", "qnan")}
"""What pandas or R read as a missing value, in lower case."""


@dataclass(frozen=True)
class Range:
    """The numbers that a key may have, and which they are in words, after "must"."""

    holds: Callable[[float], bool]
    words: str

    def check(self, path: KeyPath, value: float | None) -> None:
        """Raise `Wrong` unless the value of a key is one of them, or is left out."""
        if value is not None and not self.holds(value):
            raise Wrong(path, f"must {self.words}, got {value}")


def _within(least: int, most: int, remark: str = "") -> Range:
    return Range(lambda x: least <= x <= most, f"lie in [{least}, {most}]{remark}")


POSITIVE = Range(lambda x: 0 < x < inf, "be positive and finite")
SECONDS = Range(lambda x: 0 <= x < inf, "be a number of seconds, or 0")
SHARE = Range(lambda x: 0 <= x < 1, "be a share of the peak in [0, 1)")
RANGES: Mapping[str, Range] = {
    "alpha": Range(lambda x: 0 < x < 1, "lie between 0 and 1"),
    "trend_margin": POSITIVE,
    "trial_timeout": SECONDS,
    "checkpoint_every": SECONDS,
    "sweep.lr_min": POSITIVE,
    "sweep.lr_max": POSITIVE,
    "sweep.points": _within(2, 100),
    "sweep.budget": _within(0, 1000),
    "sweep.evaluations": _within(1, 10_000),
    "final.evaluations": _within(1, 10_000),
    "final.settings": Range(lambda x: x in range(1, 22, 2), "be an odd number from 1 to 21"),
    "final.halve_after": _within(1, 1000),
    "training.warmup_steps": _within(0, MOST),
    "training.log_every": _within(1, MOST),
    "training.clip_norm": _within(0, MOST),
    "training.evaluation_batch_size": _within(1, MOST),
    "training.min_lr": SHARE,
    "arenas.*.sweep_steps": _within(1, MOST),
    "arenas.*.steps": _within(REHEARSED, MOST, f" ({REHEARSED} are taken before any trial)"),
    "arenas.*.batch_size": _within(0, MOST),
    "arenas.*.margin": POSITIVE,
    "optimizers.*.clip_norm": _within(0, MOST),
    "optimizers.*.min_lr": SHARE,
    "optimizers.*.lr": POSITIVE,
    "optimizers.*.lr_scale": POSITIVE,
}
"""The range of each key; "*" stands for every name."""


def check_values(suite: Suite) -> None:
    """Raise `Wrong` for the first value that is out of its range or unknown, or name that some file would change."""
    for key, allowed in RANGES.items():
        for path, value in _values(suite, key):
            allowed.check(path, value)
    check_known(("breaks",), "rule", suite.breaks, RULES)
    check_known(("final", "spending"), "spending", [suite.final.spending], SPENDING)
    check_known(("final", "test"), "test", [suite.final.test], TESTS)
    check_known(("training", "precision"), "precision", [suite.training.precision], ("float32", "bfloat16"))
    check_known(("training", "schedule"), "schedule", [suite.training.schedule], SCHEDULES)
    for name, arena in suite.arenas.items():
        _check_arena(suite, name, arena)
    for name, optimizer in suite.optimizers.items():
        _check_optimizer(name, optimizer)


def _values(suite: Suite, key: str) -> list[tuple[KeyPath, Any]]:
    found: list[tuple[KeyPath, Any]] = [((), suite)]
    for name in key.split("."):
        if name == "*":
            found = [((*path, each), value) for path, part in found for each, value in part.items()]
        else:
            found = [((*path, name), getattr(part, name)) for path, part in found]
    return found


def _check_arena(suite: Suite, name: str, arena: ArenaPlan) -> None:
    path = ("arenas", name)
    if not re.fullmatch(r"[\w.\- ]+", name):  # as a command can have it
        raise Wrong(path, f"must be made of letters, digits, spaces, '_', '-' and '.', got {name!r}")
    if name == ALL_ARENAS:
        raise Wrong(path, f"must not be {ALL_ARENAS!r}, which stands for all of them in tables; rename it")
    _check_name(path, name)
    if arena.facts is None:
        check_known((*path, "task") if arena.task else path, "arena", [suite.task(name)], ARENAS)
    facts = suite.facts(name)
    for metric in facts.metrics:
        _check_name((*path, "metric"), metric)
    check_known((*path, "metric"), "metric", [arena.metric], facts.metrics)
    check_known((*path, "schedule"), "schedule", filter(None, [arena.schedule]), SCHEDULES)
    check_known((*path, "tuned_on"), "arena", filter(None, [arena.tuned_on]), suite.arenas)
    if "source" in arena.data or arena.facts is None:
        fitting = [key for key, x in DATASETS.items() if x.kind == facts.kind and x.labelled >= facts.labelled]
        remark = "; the arena's facts have no kind = 'images' or 'text'" if facts.kind == "own" else ""
        source = str(arena.data.get("source"))
        check_known((*path, "data", "source"), "source for this arena", [source], fitting, remark)
    if arena.shock:
        shocks = [key for key, x in SHOCKS.items() if facts.kind in x.kinds]
        check_known((*path, "shock", "kind"), "shock for this arena", [str(arena.shock.get("kind"))], shocks)


def _check_optimizer(name: str, plan: OptimizerPlan) -> None:
    path = ("optimizers", name)
    _check_name(path, name)
    if name == ALL:
        raise Wrong(path, f"must not be {ALL!r}, which stands for every optimizer in compare.baselines; rename it")
    if not plan.factory and name not in OPTIMIZERS:
        check_known(path, "optimizer", [name], known_optimizers(), '; a custom one needs factory = "module:Class"')
    check_known((*path, "schedule"), "schedule", [] if plan.schedule is None else [plan.schedule], SCHEDULES)
    words = [need for need in plan.needs or () if not names_methods(need)]
    check_known((*path, "needs"), "need of the training loop", words, [*NEEDS, *METHODS])


def check_references(suite: Suite) -> None:
    """Raise `Wrong` for the first name of an arena or an optimizer that the suite lacks, or has twice in a list."""
    for name, optimizer in suite.optimizers.items():
        for arena in optimizer.arenas:
            check_known(("optimizers", name, "arenas", arena), "arena", [arena], suite.arenas)
    check_known(("reference",), "optimizer", [suite.reference], suite.optimizers)
    for key, names in vars(suite.compare).items():
        if names != [ALL] or key == "optimizers":
            check_known(("compare", key), "optimizer", names, suite.optimizers)
        if len(set(names)) < len(names):
            raise Wrong(("compare", key), f"must name each optimizer once, got {names}")
    if len(suite.optimizers) > 1 and not suite.pairs:
        raise Wrong(("compare",), "has no pair of two; name an optimizer and another one as its baseline")
    check_known(("controls",), "optimizer", suite.controls, suite.optimizers)
    if suite.controls and len(set(suite.controls)) < max(len(suite.controls), 2):
        raise Wrong(("controls",), f"must have two or more optimizers, each once, got {suite.controls}")


def check_known(path: KeyPath, kind: str, words: Iterable[str], known: Iterable[str], remark: str = "") -> None:
    """Raise `Wrong` for the first word that is none of the known ones."""
    for word in words:
        if word not in known:
            raise Wrong(path, f"{unknown(kind, word, known)}{remark}")


def check_rising(path: KeyPath, values: Sequence[float]) -> None:
    """Raise `Wrong` unless the values of a key are positive and rise."""
    if not values or [*values] != sorted(set(values)) or not all(0 < x <= MOST for x in values):
        raise Wrong(path, f"must be positive numbers that rise, got {values}")


def _check_name(path: KeyPath, name: str) -> None:
    """Raise `Wrong` unless the name of an arena, an optimizer or a metric stays what it is in every file."""
    if not name.isprintable() or " ".join(name.split()) != name or not name:
        raise Wrong(path, f"must be printable and not blank, without spaces at its ends or in a row, got {name!r}")
    if name[0] in "=@":
        raise Wrong(path, f"must not begin with '=' or '@', which spreadsheets compute; rename {name!r}")
    if name.lower() in MISSING:
        raise Wrong(path, f"must not be a word that programs read as a missing value; rename {name!r}")

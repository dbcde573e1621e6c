"""Checks of single keys of a suite: ranges, known words and names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from fairbench.common.coercion import KeyPath, Wrong
from fairbench.common.errors import unknown
from fairbench.optimizers.resolve import METHODS, NEEDS, SCHEDULES, names_methods
from fairbench.suites.schema import RULES, Suite
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
CHOICES: Mapping[str, tuple[str, Iterable[str]]] = {
    "breaks": ("rule", RULES),
    "final.spending": ("spending", SPENDING),
    "final.test": ("test", TESTS),
    "training.precision": ("precision", ("float32", "bfloat16")),
    "training.schedule": ("schedule", SCHEDULES),
    "optimizers.*.schedule": ("schedule", SCHEDULES),
    "optimizers.*.needs": ("need of the training loop", [*NEEDS, *METHODS]),
}
"""The kind and the known values of each key that has words."""


def check_values(suite: Suite) -> None:
    """Raise `Wrong` for the first key with a value that is out of its range or unknown."""
    for key, allowed in RANGES.items():
        for path, value in _values(suite, key):
            allowed.check(path, value)
    for key, (kind, known) in CHOICES.items():
        for path, value in _values(suite, key):
            words = [value] if isinstance(value, str) else value or ()
            check_known(path, kind, [x for x in words if key != "optimizers.*.needs" or not names_methods(x)], known)


def _values(suite: Suite, key: str) -> list[tuple[KeyPath, Any]]:
    found: list[tuple[KeyPath, Any]] = [((), suite)]
    for name in key.split("."):
        if name == "*":
            found = [((*path, each), value) for path, part in found for each, value in part.items()]
        else:
            found = [((*path, name), getattr(part, name)) for path, part in found]
    return found


def check_known(path: KeyPath, kind: str, words: Iterable[str], known: Iterable[str], remark: str = "") -> None:
    """Raise `Wrong` for the first word that is none of the known ones."""
    for word in words:
        if word not in known:
            raise Wrong(path, f"{unknown(kind, word, known)}{remark}")


def check_rising(path: KeyPath, values: Sequence[float]) -> None:
    """Raise `Wrong` unless the values of a key are positive and rise."""
    if not values or [*values] != sorted(set(values)) or not all(0 < x <= MOST for x in values):
        raise Wrong(path, f"must be positive numbers that rise, got {values}")


def check_name(path: KeyPath, name: str) -> None:
    """Raise `Wrong` unless the name of an arena, an optimizer or a metric stays what it is in every file."""
    if not name.isprintable() or " ".join(name.split()) != name or not name:
        raise Wrong(path, f"must be printable and not blank, without spaces at its ends or in a row, got {name!r}")
    if name[0] in "=@":
        raise Wrong(path, f"must not begin with '=' or '@', which spreadsheets compute; rename {name!r}")
    if name.lower() in MISSING:
        raise Wrong(path, f"must not be a word that programs read as a missing value; rename {name!r}")

"""The names of what a program reports: which of them stands for a key as "val/loss", and which one counts steps."""

import re
from collections.abc import Collection, Iterable, Mapping

from fairbench.arenas.program import ProgramOptions

STEP_NAMES = ("step", "global_step", "trainer/global_step", "iteration", "iter", "it", "update", "epoch", "_step")
"""The names that may count steps, the preferred ones first. W&B's own `_step` counts its reports."""
SPLITS = {
    "training": "train",
    "valid": "val",
    "validation": "val",
    "eval": "val",
    "dev": "val",
}
"""Other words for a split."""
OF_TRAINING = frozenset({"loss"})
"""Metrics that are those of the training where their names have no split."""


class WrongResults(Exception):
    """The reports of a program are wrong. The message names the file and the line, and says what to do."""


class MissingMetric(WrongResults):
    """A program has not reported a metric.

    Attributes:
        name: the metric with its split, such as "val/loss".
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class NoTestSplit(MissingMetric):
    """A program reports no test split, about which the verdict would be: every final trial fails."""


def words_of(name: str) -> list[str]:
    """The words of a name in lower case, sorted, with the usual word for a split: "Loss/valid" has loss and val."""
    separated = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    words = re.findall(r"[a-z]+|\d+", separated)
    return sorted(SPLITS.get(word, word) for word in words)


def chosen_names(options: ProgramOptions, found: Collection[str]) -> dict[str, str]:
    """The name that stands for each key, except "step", among the names that a program has reported.

    It is the name of the suite's `keys`, or the key itself, or the one name with the same words, such as val_loss for
    "val/loss". A metric that has no name with a split may be reported by its own name.

    Raises:
        WrongResults: two names may stand for a key.
    """
    chosen = {}
    for key, name in options.names.items():
        if key == "step":
            continue
        if name in found:
            chosen[key] = name
            continue
        if key in options.keys or key in options.patterns:
            continue  # no other name stands for it
        alike = _with_words_of(key, found) or _without_split(key, found)
        if len(alike) > 1:
            raise WrongResults(
                f'{" and ".join(alike)} may both be {key}; say which one: keys = {{ "{key}" = "{alike[0]}" }}'
            )
        if alike:
            chosen[key] = alike[0]
    return chosen


def _with_words_of(text: str, found: Iterable[str]) -> list[str]:
    """The names that have the same words as a text, such as val_loss and "val/loss"."""
    return [name for name in sorted(found) if words_of(name) == words_of(text)]


def _without_split(key: str, found: Iterable[str]) -> list[str]:
    """The names that are those of a validation metric without its split, such as val_bpb or accuracy."""
    split, _, metric = key.partition("/")
    if split != "val" or metric in OF_TRAINING:
        return []
    return _with_words_of(metric, found)


def step_names(options: ProgramOptions, found: Iterable[str]) -> list[str]:
    """The names that may count the steps of some reports, the preferred ones first."""
    if "step" in options.keys:
        return [options.keys["step"]]
    by_lower_case: Mapping[str, str] = {name.lower(): name for name in found}
    return [by_lower_case[name] for name in STEP_NAMES if name in by_lower_case]

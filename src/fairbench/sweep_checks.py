"""What the types of a sweep cannot say: which ways to search there are, and which keys and numbers belong to each."""

from math import isfinite

from fairbench.errors import unknown
from fairbench.search import SEARCHES, Grid, Random, Setting, extras
from fairbench.suite import Sweep
from fairbench.suite_values import KeyPath, Wrong

KEYS = {
    "grid": {"points": (2, 100), "max_extensions": (0, 100)},
    "random": {"budget": (2, 1000), "search_seed": (0, 2**63 - 1)},
}
"""The keys of each way to search, with the least and the most; the first is needed, the others are 0 if not given."""


def check_sweep(sweep: Sweep) -> None:
    """Raise `Wrong` for the first thing in a sweep that has no meaning; its seeds are the suite's affair."""
    check_positive(("sweep", "lr_min"), sweep.lr_min)
    check_positive(("sweep", "lr_max"), sweep.lr_max)
    if sweep.lr_max <= sweep.lr_min:
        raise Wrong(("sweep", "lr_max"), f"must be above lr_min = {sweep.lr_min}, got {sweep.lr_max}")
    if sweep.search not in SEARCHES:
        raise Wrong(("sweep", "search"), unknown("way to search", sweep.search, SEARCHES))
    for search, keys in KEYS.items():
        for key, (least, most) in keys.items():
            value, path = getattr(sweep, key), ("sweep", key)
            if search != sweep.search and value:
                needed = next(iter(KEYS[sweep.search]))
                raise Wrong(path, f'belongs to search = "{search}"; a {sweep.search} search has {needed}; leave it out')
            if search == sweep.search and value == 0 < least:
                raise Wrong(path, f"is missing: a {search} search needs it")
            if search == sweep.search and not least <= value <= most:
                raise Wrong(path, f"must lie in [{least}, {most}], got {value}")
    _check_extra(sweep)
    check_settings(("sweep", next(iter(KEYS[sweep.search]))), sweep, 1.0)


def check_settings(path: KeyPath, sweep: Sweep, scale: float) -> None:
    """See that the settings that may be tried at a scale are distinct, their rates positive and finite."""
    if sweep.search == "grid":
        span = range(-sweep.max_extensions, sweep.points + sweep.max_extensions)
        tried = [Setting(Grid(sweep, scale).rate(index)) for index in span]
    else:
        tried = Random(sweep, scale).first()
    rates = [setting.lr for setting in tried]
    if not (rates[0] > 0 and rates[-1] < float("inf") and len(set(tried)) == len(tried)):
        raise Wrong(path, f"gives rates that are not distinct, positive and finite: {rates}")


def check_positive(path: KeyPath, value: float) -> None:
    """Raise `Wrong` unless a number is positive and finite."""
    if not 0 < value < float("inf"):
        raise Wrong(path, f"must be positive and finite, got {value}")


def _check_extra(sweep: Sweep) -> None:
    if len(sweep.extra) > 1:
        raise Wrong(("sweep", "extra"), f"one hyperparameter is searched beside the rate, got {', '.join(sweep.extra)}")
    for name, values in sweep.extra.items():
        path = ("sweep", "extra", name)
        if name == "lr":
            raise Wrong(path, "is searched in any case, from lr_min to lr_max; leave it out")
        least = 0.0 if name == "weight_decay" else -float("inf")
        for value in values:
            for each in value if isinstance(value, list) else [value]:
                if not isinstance(each, bool | int | float | str):
                    raise Wrong(path, f"must be numbers, words, true or false, or lists of them, got {value!r}")
                if not isinstance(each, str) and not (isfinite(each) and each >= least):
                    raise Wrong(path, f"must be finite{' and not negative' * (least == 0)}, got {value!r}")
        if len(values) < 2 or len(set(extras(sweep))) < len(values):
            raise Wrong(path, f"must be two or more values, each once, got {values}")

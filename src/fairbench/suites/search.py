"""The settings that a sweep tries, by the same rule for every optimizer."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbench.suites.schema import Sweep

Extra = tuple[tuple[str, Any], ...]
"""Name and value of the hyperparameter that is searched with the rate; empty for none."""


@dataclass(frozen=True)
class Setting:
    """A learning rate, and a value of the extra hyperparameter."""

    lr: float
    extra: Extra = ()

    @classmethod
    def of(cls, options: Mapping[str, Any], searched: Iterable[str]) -> "Setting":
        """The setting of a trial from its options, where these hyperparameters are searched with the rate."""
        return cls(options["lr"], tuple((name, options[name]) for name in searched))


class Search(ABC):
    """The settings to try, some of which may depend on scores; a search of a single setting needs no trial."""

    @abstractmethod
    def first(self) -> list[Setting]:
        """The settings that are always tried, by increasing rate."""

    def more(self, tried: Sequence[Setting], best: Setting) -> list[Setting]:
        """The settings to try next, given the best of those tried; empty when the search is over."""
        return []

    @property
    def most(self) -> int:
        """The largest number of settings that `more` adds in total."""
        return 0


@dataclass(frozen=True)
class Grid(Search):
    """Log-spaced rates, multiplied by `scale`, with every extra; a rate is added while the best lies on the edge."""

    sweep: Sweep
    scale: float = 1.0

    def first(self) -> list[Setting]:
        """The grid."""
        return [setting for index in range(self.sweep.points) for setting in self._at(index)]

    def more(self, tried: Sequence[Setting], best: Setting) -> list[Setting]:
        """The next rate beyond the edge, if the best lies on it."""
        rates = sorted({setting.lr for setting in tried})
        below = sum(rate < self.rate(0) for rate in rates)
        beyond = {rates[0]: -below - 1, rates[-1]: len(rates) - below}
        extensions = len(rates) - self.sweep.points
        return self._at(beyond[best.lr]) if best.lr in beyond and extensions < self.sweep.max_extensions else []

    @property
    def most(self) -> int:
        """The settings of all extensions."""
        return self.sweep.max_extensions * len(extras(self.sweep))

    def rate(self, index: int) -> float:
        """The rate at an index: 0 is `lr_min`, `points` - 1 is `lr_max`; other indices extend the grid."""
        ratio = (self.sweep.lr_max / self.sweep.lr_min) ** (1 / (self.sweep.points - 1))
        return rounded(self.scale * self.sweep.lr_min * ratio**index)

    def _at(self, index: int) -> list[Setting]:
        return [Setting(self.rate(index), extra) for extra in extras(self.sweep)]


@dataclass(frozen=True)
class Random(Search):
    """Random settings: rates log-uniform, multiplied by `scale`, and values of the extra uniform.

    Draw K of a seed takes two numbers in [0, 1): the first 53 bits of the sha256 of "SEED K lr" and of
    "SEED K extra", over 2^53. So draws are the same on every machine, and a larger budget includes a smaller one.
    """

    sweep: Sweep
    scale: float = 1.0

    def first(self) -> list[Setting]:
        """All draws of the budget."""
        return sorted(map(self._draw, range(self.sweep.budget)), key=lambda setting: setting.lr)

    def _draw(self, k: int) -> Setting:
        values, ratio = extras(self.sweep), self.sweep.lr_max / self.sweep.lr_min
        rate = self.scale * self.sweep.lr_min * ratio ** self._uniform(k, "lr")
        return Setting(rounded(rate), values[int(len(values) * self._uniform(k, "extra"))])

    def _uniform(self, k: int, what: str) -> float:
        text = f"{self.sweep.search_seed} {k} {what}"
        return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11) / 2**53


@dataclass(frozen=True)
class Untuned(Search):
    """No search: the optimizer has a fixed `lr`, or finds its rate by itself."""

    lr: float

    def first(self) -> list[Setting]:
        """The one setting."""
        return [Setting(self.lr)]


SEARCHES = {"grid": Grid, "random": Random}
"""The searches, by their names in suites."""


def search_for(sweep: Sweep, lr_scale: float, lr: float | None) -> Search:
    """The search for an optimizer: the suite's, with rates times `lr_scale`, or none if it has a fixed `lr`."""
    return SEARCHES[sweep.search](sweep, lr_scale) if lr is None else Untuned(lr)


def extras(sweep: Sweep) -> list[Extra]:
    """Every value of the hyperparameter that is searched with the rate, otherwise one empty extra.

    An integer among floats becomes a float: 0 with 0.01 is 0.0.
    """
    for name, values in sweep.extra.items():
        fractions = float in map(type, values)
        return [((name, _canonical(value, fractions)),) for value in values]
    return [()]


def _canonical(value: Any, fractions: bool) -> Any:
    return float(value) if fractions and type(value) is int else tuple(value) if isinstance(value, list) else value


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether all values are numbers, so that they have an order."""
    return all(type(value) in (int, float) for value in values)


def rounded(rate: float) -> float:
    """A rate rounded to six digits, so that it is the same number on every machine."""
    return float(f"{rate:.6g}")

"""What a sweep tries: settings of an optimizer, by the same rule for all of them."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbench.suites.schema import Sweep

Extra = tuple[tuple[str, Any], ...]
"""Name and value of the hyperparameter that is searched with the rate; empty without one."""


@dataclass(frozen=True)
class Setting:
    """What a search selects.

    Attributes:
        lr: the learning rate.
        extra: the further hyperparameter.
    """

    lr: float
    extra: Extra = ()

    @classmethod
    def of(cls, options: Mapping[str, Any], searched: Iterable[str]) -> "Setting":
        """The setting of a trial with these options, where such hyperparameters are searched with the rate."""
        return cls(options["lr"], tuple((name, options[name]) for name in searched))


class Search(ABC):
    """Which settings are tried, as far as the scores take it; one that has a single setting needs no trial."""

    @abstractmethod
    def first(self) -> list[Setting]:
        """What is tried whatever the scores are, by rising rate."""

    def more(self, tried: Sequence[Setting], best: Setting) -> list[Setting]:
        """What is tried next, now that one of those tried is the best; nothing when the search is over.

        Args:
            tried: the settings so far.
            best: the best of them.
        """
        return []

    @property
    def most(self) -> int:
        """How many settings `more` may add in all."""
        return 0


@dataclass(frozen=True)
class Grid(Search):
    """Log-spaced rates with every value of the extra; a rate is added while the best lies on the edge.

    Attributes:
        sweep: the suite's.
        scale: the rates are multiplied by this.
    """

    sweep: Sweep
    scale: float = 1.0

    def first(self) -> list[Setting]:
        """The grid."""
        return [setting for index in range(self.sweep.points) for setting in self._at(index)]

    def more(self, tried: Sequence[Setting], best: Setting) -> list[Setting]:
        """The next rate beyond the edge on which the best lies."""
        rates = sorted({setting.lr for setting in tried})
        below = sum(rate < self.rate(0) for rate in rates)
        beyond = {rates[0]: -below - 1, rates[-1]: len(rates) - below}
        extensions = len(rates) - self.sweep.points
        return self._at(beyond[best.lr]) if best.lr in beyond and extensions < self.sweep.max_extensions else []

    @property
    def most(self) -> int:
        """Those of all extensions."""
        return self.sweep.max_extensions * len(extras(self.sweep))

    def rate(self, index: int) -> float:
        """The rate at an index: 0 is `lr_min`, `points` - 1 is `lr_max`, others continue the grid."""
        ratio = (self.sweep.lr_max / self.sweep.lr_min) ** (1 / (self.sweep.points - 1))
        return rounded(self.scale * self.sweep.lr_min * ratio**index)

    def _at(self, index: int) -> list[Setting]:
        return [Setting(self.rate(index), extra) for extra in extras(self.sweep)]


@dataclass(frozen=True)
class Random(Search):
    """Settings that are drawn: rates log-uniform between the ends, values of the extra uniform.

    Draw `k` of a seed takes two numbers in [0, 1): the first 53 bits of the sha256 of "SEED K lr" and of
    "SEED K extra", over 2^53. So everyone gets the same draws, on every machine, and a larger budget has those of a
    smaller one among its own.

    Attributes:
        sweep: the suite's.
        scale: the rates are multiplied by this.
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
    """No search: the optimizer finds its rate by itself.

    Attributes:
        lr: what it is given instead of one.
    """

    lr: float

    def first(self) -> list[Setting]:
        """The one setting."""
        return [Setting(self.lr)]


SEARCHES = {"grid": Grid, "random": Random}
"""The ways to search, by the names that suites have for them."""


def search_for(sweep: Sweep, lr_scale: float, lr: float | None) -> Search:
    """The search for an optimizer: the suite's, or none where it has a rate of its own.

    Args:
        sweep: the suite's.
        lr_scale: the rates are multiplied by this.
        lr: the optimizer's own rate; None if one is searched.
    """
    return SEARCHES[sweep.search](sweep, lr_scale) if lr is None else Untuned(lr)


def extras(sweep: Sweep) -> list[Extra]:
    """Every value of the hyperparameter that is searched with the rate; the empty setting without one.

    An integer among floats is a float: 0 with 0.01 is 0.0.
    """
    for name, values in sweep.extra.items():
        fractions = float in map(type, values)
        return [((name, _canonical(value, fractions)),) for value in values]
    return [()]


def _canonical(value: Any, fractions: bool) -> Any:
    return float(value) if fractions and type(value) is int else tuple(value) if isinstance(value, list) else value


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether values are numbers, so that there is a lowest and a highest."""
    return all(type(value) in (int, float) for value in values)


def rounded(rate: float) -> float:
    """A rate with six digits, so that it is the same number on every machine."""
    return float(f"{rate:.6g}")

"""The settings that a search tries, by the same rule for every optimizer.

What is tried next is a function of the scores so far alone: it is the same on every machine, with any number of
drivers, and after every interruption.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, isfinite, log, prod
from typing import Any

from fairbench.common.coercion import KeyPath, Wrong
from fairbench.optimizers.spec import WARMUP, ResolvedOptimizer
from fairbench.suites.stages import Final, Sweep

OtherValues = tuple[tuple[str, Any], ...]
"""The names and values of the hyperparameters that are searched with the learning rate; empty without any."""
Score = tuple[float, ...]
"""The score of a setting, lower is better: the share of its trials that diverged, then the mean validation metrics."""
NO_RATE = 0.0
"""The rate of the setting of a program that has none."""
KEPT = 2
"""The settings that continue after `Final.halve_after` seeds."""


@dataclass(frozen=True)
class Setting:
    """A learning rate, and values of the other searched hyperparameters."""

    lr: float
    extra: OtherValues = ()

    @classmethod
    def of(cls, hyperparameters: Mapping[str, Any], searched: Iterable[str]) -> "Setting":
        """The setting of a trial: the learning rate, and the `searched` hyperparameters that the trial has."""
        extra = tuple((name, hyperparameters[name]) for name in searched if name in hyperparameters)
        return cls(hyperparameters.get("lr", NO_RATE), extra)

    def with_value(self, name: str, value: Any) -> "Setting":
        """The setting with another value of one hyperparameter, which may be "lr"."""
        if name == "lr":
            return Setting(value, self.extra)
        extra = dict(self.extra)
        extra[name] = value
        return Setting(self.lr, tuple(extra.items()))


Scores = Mapping[Setting, Score]
"""The score of every setting that was tried, by rising rate."""


def ranked(scores: Scores) -> list[Setting]:
    """The settings, the best score first. Equal scores are sorted by rising rate, then stay in their order."""
    return sorted(scores, key=lambda setting: (scores[setting], setting.lr))


@dataclass(frozen=True)
class Search:
    """The search of one optimizer: log-spaced rates, each with every combination of the other values.

    The rest of the budget goes to one rate at a time. The rate lies beyond the edge of the grid that is nearer to the
    best rate. What a finer grid could gain is part of every verdict, see `fairbench.analysis.comparison.finer_search`.
    A finer grid of final trials was tried in simulations: it made errors more frequent, since the noise of short trials
    and of two seeds then stops the search farther from the optimum.

    Attributes:
        scale: rates are multiplied by this.
        lacks: searched hyperparameters that the optimizer does not have.
    """

    sweep: Sweep
    scale: float = 1.0
    lacks: frozenset[str] = frozenset()

    def next(self, scores: Scores) -> list[Setting]:
        """The settings to try next, by rising rate: first the grid, then one rate at a time; empty at the end."""
        if not scores:
            settings = []
            for index in range(self.sweep.points):
                settings += self._at_rate(self.rate(index))
            return settings
        remaining = self.size - len(scores)
        return self._at_rate(self._beyond(scores))[:remaining]

    def _at_rate(self, lr: float) -> list[Setting]:
        """The settings with a learning rate and every combination of the other values."""
        return [Setting(lr, extra) for extra in self.extras]

    @property
    def size(self) -> int:
        """The number of settings that every optimizer tries, even if it lacks a searched hyperparameter."""
        rates = self.sweep.budget or self.sweep.points
        return rates * prod(len(values) for values in self.sweep.extra.values())

    def first(self) -> list[Setting]:
        """The settings of the grid."""
        return self.next({})

    def final_trials(self, final: Final, seeds: int, added: bool = False) -> int:
        """The largest number of final trials of an arm with `seeds` seeds.

        It is that of an arm whose located setting stays the best one. If `added` is True, the settings that may be
        added until the best two have neighbors on both sides are counted as well.
        """
        hyperparameters = 1 + len(self.values)
        most_places = final.settings // 2
        settings = 1 + 2 * most_places * hyperparameters
        if settings > 1:
            most = max(settings, self.size)
            # the second best setting has neighbors on both sides, but on one side those of the best one
            settings = min(settings + most_places * (2 * hyperparameters - 1), most)
            if added:
                settings = most
        first_seeds = min(final.halve_after, seeds)
        later_seeds = seeds - first_seeds  # only the kept settings have these
        return settings * first_seeds + min(settings, KEPT) * later_seeds

    def finals(self, final: Final, short_scores: Scores, full_scores: Scores) -> list[Setting]:
        """The settings to train next in final trials: the best settings so far and their neighbors.

        `short_scores` are the scores of the sweep, `full_scores` those of the final trials so far. The settings that
        continue need their neighbors, which are added until there are as many settings as in the sweep.
        """
        most_places = final.settings // 2
        if not full_scores:
            best = ranked(short_scores)[0]
            return [best, *self._neighbors(best, most_places)]
        around: list[Setting] = []
        for best in ranked(full_scores)[:KEPT]:
            around += self._neighbors(best, most_places)
        new = [setting for setting in dict.fromkeys(around) if setting not in full_scores]
        most_new = max(len(short_scores) - len(full_scores), 0)
        return new[:most_new]

    def _neighbors(self, setting: Setting, most_places: int) -> list[Setting]:
        """The settings that differ in one hyperparameter, by at most this number of places on each side."""
        near = []
        for places in range(-most_places, most_places + 1):
            lr = self.rate(self.index(setting.lr) + places)
            near.append(setting.with_value("lr", lr))
            for name, value in setting.extra:
                values = self.values[name]
                if are_numbers(values):
                    values = sorted(values)
                position = values.index(value) + places
                if 0 <= position < len(values):
                    near.append(setting.with_value(name, values[position]))
        distinct = dict.fromkeys(near)
        return [neighbor for neighbor in distinct if neighbor != setting]

    @property
    def values(self) -> dict[str, list[Any]]:
        """The values of each searched hyperparameter that the optimizer has."""
        values_by_name = {}
        for name, values in self.sweep.extra.items():
            if name not in self.lacks:
                values_by_name[name] = canonical(values)
        return values_by_name

    @property
    def extras(self) -> list[OtherValues]:
        """All combinations of the values of `values`. Without any values there is one empty combination."""
        names = self.values.keys()
        combinations = product(*self.values.values())
        return [tuple(zip(names, combination, strict=True)) for combination in combinations]

    @property
    def _ratio(self) -> float:
        """The ratio of two neighboring rates of the grid."""
        return float((self.sweep.lr_max / self.sweep.lr_min) ** (1 / (self.sweep.points - 1)))

    def rate(self, index: float) -> float:
        """The rate at an index of the grid: 0 is `lr_min`, `points` - 1 is `lr_max`. The grid continues on both sides.

        The rate is rounded to six digits, so that it is the same number on every machine.
        """
        return float(f"{self.scale * self.sweep.lr_min * self._ratio**index:.6g}")

    def check_rates(self, path: KeyPath) -> None:
        """Raise `Wrong` for the key at `path` unless all rates that may be tried are distinct, positive and finite."""
        points = self.sweep.points
        beyond = points + 2 * max(self.sweep.budget - points, 0)
        try:
            rates = [self.rate(index) for index in range(-beyond, points + beyond)]
        except OverflowError:
            raise Wrong(path, f"gives rates that are not finite: up to {beyond} may be tried beyond each end") from None
        are_distinct = len(set(rates)) == len(rates)
        if not (rates[0] > 0 and rates[-1] < inf and are_distinct):
            raise Wrong(path, f"gives rates that are not distinct, positive and finite: {rates}")

    def index(self, lr: float) -> float:
        """The index of a rate in the grid. A rate between two points of the grid has a fraction as its index."""
        return round(log(lr / self.rate(0)) / log(self._ratio), 4)

    def _beyond(self, scores: Scores) -> float:
        """The next rate beyond the edge that is nearer to the best rate.

        If both are equally near, the better one counts.
        """
        best_scores: dict[float, Score] = {}  # the best score at each rate
        for setting, score in scores.items():
            best_so_far = best_scores.get(setting.lr, score)
            best_scores[setting.lr] = min(best_so_far, score)
        lowest = min(best_scores)
        highest = max(best_scores)
        best_index = self.index(ranked(scores)[0].lr)

        def distance(edge: float) -> tuple[float, Score]:
            """The distance of an edge from the best rate, and the best score at the edge."""
            return abs(self.index(edge) - best_index), best_scores[edge]

        if distance(highest) <= distance(lowest):
            return self.rate(self.index(highest) + 1)
        return self.rate(self.index(lowest) - 1)


class Untuned(Search):
    """No search: the optimizer has a fixed rate, or finds its rate by itself. Its only rate is `scale`."""

    def final_trials(self, final: Final, seeds: int, added: bool = False) -> int:
        return seeds

    def next(self, scores: Scores) -> list[Setting]:
        if scores:
            return []
        return [Setting(self.scale)]

    @property
    def size(self) -> int:
        return 1


def search_for(sweep: Sweep, optimizer: ResolvedOptimizer) -> Search:
    """The search for an optimizer: none if its rate is fixed, or if it has none; otherwise that of the suite."""
    if not optimizer.has_rate:
        return Untuned(sweep, NO_RATE)
    if optimizer.lr is not None:
        return Untuned(sweep, optimizer.lr)
    return Search(sweep, optimizer.lr_scale, frozenset(optimizer.lacks))


def check_sweep(sweep: Sweep) -> None:
    """Raise `Wrong` for the first error in the search of a suite, apart from the ranges of single keys."""
    if sweep.lr_max <= sweep.lr_min:
        raise Wrong(("sweep", "lr_max"), f"must be above lr_min = {sweep.lr_min}, got {sweep.lr_max}")
    if 0 < sweep.budget < sweep.points:
        raise Wrong(("sweep", "budget"), f"must be at least points = {sweep.points}, got {sweep.budget}")
    for name, values in sweep.extra.items():
        _check_extra(name, values)
    Search(sweep).check_rates(("sweep", "points"))


def _check_extra(name: str, values: Sequence[Any]) -> None:
    """Raise `Wrong` for the first error in the values of a hyperparameter that is searched with the rate."""
    path = ("sweep", "extra", name)
    if name == "lr":
        raise Wrong(path, "is always searched, from lr_min to lr_max; leave it out")
    if name == WARMUP and not all(type(value) is int for value in values):
        raise Wrong(path, f"must be whole numbers of steps, got {values}")
    least = -inf
    need = "must be finite"
    if name in ("weight_decay", WARMUP):
        least = 0.0
        need = "must be finite and not negative"
    for value in values:
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            if not isinstance(part, bool | int | float | str):
                raise Wrong(path, f"must be numbers, strings, true or false, or lists of them, got {value!r}")
            if isinstance(part, str):
                continue
            if not isfinite(part) or part < least:
                raise Wrong(path, f"{need}, got {value!r}")
    if len(values) < 2 or len(set(canonical(values))) < len(values):
        raise Wrong(path, f"must be two or more values, each once, got {values}")


def canonical(values: Iterable[Any]) -> list[Any]:
    """The values of a hyperparameter as they are compared. An integer among floats becomes a float, a list a tuple."""
    hashable = [tuple(value) if isinstance(value, list) else value for value in values]
    if not any(type(value) is float for value in hashable):
        return hashable
    return [float(value) if type(value) is int else value for value in hashable]


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether all values are numbers, so that they have an order."""
    return all(type(value) in (int, float) for value in values)

"""The settings of a search, the same for every optimizer."""

import math
from dataclasses import dataclass, replace
from itertools import product

import pytest

from fairbench.optimizers.registry import OPTIMIZERS, OptimizerFacts
from fairbench.optimizers.resolve import rates_of, resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.search import Search, Setting, canonical
from fairbench.suites.stages import Final, Sweep

DECAYS = {"weight_decay": [0, 0.01, 0.1]}
THREE = Final(seeds=[1, 2], evaluations=1)


def sweep_of(**fields):
    return Sweep(lr_min=1e-4, lr_max=1e-2, seeds=[0], evaluations=1, points=3, **fields)


def searched(search, best):
    """The scores of every setting that a search tries, lower is better."""
    scores = {}
    while new := search.next(scores):
        for setting in new:
            assert setting not in scores
            scores[setting] = (distance(setting, best),)
    return scores


def distance(setting, best):
    """Decades from the best rate."""
    return abs(math.log10(setting.lr / best))


def rates(settings):
    return sorted(setting.lr for setting in settings)


def test_every_grid_tries_as_many_settings():
    """All rates are on the grid, also where the best lies inside, so that final trials compare the same rates."""
    grid = Search(sweep_of(budget=6))
    inside = searched(grid, best=2e-3)
    beyond = searched(grid, best=1.0)
    assert grid.size == 6
    assert rates(inside) == [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0]
    assert rates(beyond) == [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]
    without_decay = Search(sweep_of(budget=6, extra=DECAYS), lacks=frozenset(DECAYS))
    assert without_decay.size == 18
    assert len(searched(without_decay, best=2e-3)) == 18
    only_points = Search(sweep_of())
    assert len(searched(only_points, best=1.0)) == 3


@dataclass
class FinalCase:
    """The rates that are tried at the reported length if this one is best there."""

    best: float
    tried: list[float]


FINAL_CASES = [
    FinalCase(best=1.1e-3, tried=[1e-4, 1e-3, 1e-2, 1e-1]),  # the second best is 1e-2
    FinalCase(best=0.9e-3, tried=[1e-5, 1e-4, 1e-3, 1e-2]),
    FinalCase(best=0.3, tried=[1e-4, 1e-3, 1e-2, 1e-1, 1.0]),
    FinalCase(best=1e-9, tried=[1e-6, 1e-5, 1e-4, 1e-3, 1e-2]),
]


@pytest.mark.parametrize("case", FINAL_CASES, ids=lambda case: f"{case.best:g}")
def test_final_settings_are_added_until_the_best_two_lie_inside(case):
    """It never tries more settings than the short search, here five."""
    search = Search(sweep_of(budget=5))
    short = {}
    for lr in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1):
        setting = Setting(lr)
        short[setting] = (distance(setting, 1e-3),)
    full = trained(search, short, best=case.best)
    assert rates(full) == pytest.approx(case.tried)


def trained(search, short, best):
    """The scores of every setting that is trained at the reported length."""
    full = {}
    while new := search.finals(THREE, short, full):
        for setting in new:
            assert setting not in full
            full[setting] = (distance(setting, best),)
    return full


@dataclass
class NeighborCase:
    """The neighbors of a weight decay among 0, 0.01 and 0.1."""

    decay: float
    lower: list[float]
    higher: list[float]


NEIGHBOR_CASES = [
    NeighborCase(decay=0.0, lower=[], higher=[0.01]),
    NeighborCase(decay=0.01, lower=[0.0], higher=[0.1]),
    NeighborCase(decay=0.1, lower=[0.01], higher=[]),
]


@pytest.mark.parametrize("case", NEIGHBOR_CASES, ids=lambda case: f"{case.decay:g}")
def test_lower_neighbors_are_tried_before_higher_ones(case):
    betas = [(0.9, 0.99), (0.9, 0.9), (0.8, 0.9)]
    best = Setting(1e-3, (("weight_decay", case.decay), ("betas", betas[0])))
    grid = Search(sweep_of(extra={"weight_decay": [0.01, 0.0, 0.1], "betas": betas}))
    lower = [best.with_value("lr", 1e-4)]
    lower += [best.with_value("weight_decay", decay) for decay in case.lower]
    higher = [best.with_value("lr", 1e-2)]
    higher += [best.with_value("weight_decay", decay) for decay in case.higher]
    higher.append(best.with_value("betas", betas[1]))
    assert grid.finals(THREE, {best: (0.0,)}, {}) == [best, *lower, *higher]


@pytest.mark.parametrize("places", [1, 2])
@pytest.mark.parametrize("extra", [{}, {"momentum": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]}], ids=["rate", "momentum"])
def test_the_forecast_counts_the_neighbors_of_whichever_setting_is_second_best(places, extra):
    grid = Search(sweep_of(budget=30, extra=extra))
    final = replace(THREE, settings=1 + 2 * places)
    located = Setting(grid.rate(15), grid.extras[len(grid.extras) // 2])
    short = {}
    for index, others in product(range(30), grid.extras):
        short[Setting(grid.rate(index), others)] = (1.0,)
    short[located] = (0.0,)
    first = grid.finals(final, short, {})
    most = 0
    for second in first[1:]:
        full = dict.fromkeys(first, (2.0,))
        full |= {located: (0.0,), second: (1.0,)}
        most = max(most, len(full) + len(grid.finals(final, short, full)))
    assert grid.final_trials(final, 2) == 2 * most
    assert grid.final_trials(final, 5) == 2 * most + 3 * 2  # of which two continue
    assert grid.final_trials(final, 2, added=True) == 2 * grid.size


def test_no_more_final_trials_are_forecast_than_the_budget_has():
    only_points = Search(sweep_of())
    assert only_points.final_trials(THREE, 2) == only_points.final_trials(THREE, 2, added=True) == 2 * 3
    assert only_points.final_trials(replace(THREE, settings=5), 2) == 2 * 5  # the first ones are trained in any case
    assert only_points.final_trials(replace(THREE, settings=1), 7, added=True) == 7


def test_integers_among_floats_become_floats():
    assert repr(canonical([0, 0.1])) == "[0.0, 0.1]"
    assert repr(canonical([1, 2])) == "[1, 2]"
    assert canonical([True, False]) == [True, False]
    assert canonical([[0.9, 0.99], [0.9, 0.999]]) == [(0.9, 0.99), (0.9, 0.999)]


def test_what_a_grid_tries_beyond_its_points():
    """One rate at a time, with every value: beyond the nearer end, of equally near ones the better."""
    grid = Search(sweep_of(budget=5, extra=DECAYS))
    first = grid.first()
    lowest = first[0]
    middle = first[4]
    highest = first[6]
    scores = dict.fromkeys(first, (1.0,))
    lower = grid.next({**scores, lowest: (0.0,)})
    assert rates(lower) == [1e-5, 1e-5, 1e-5]  # one for each decay
    inside = {**scores, middle: (0.0,)}
    assert set(rates(grid.next({**inside, highest: (0.5,)}))) == {1e-1}
    assert set(rates(grid.next({**inside, lowest: (0.5,)}))) == {1e-5}
    scores |= dict.fromkeys(lower, (1.0,))
    upper = grid.next({**scores, first[-1]: (0.0,)})
    assert set(rates(upper)) == {1e-1}
    scores |= dict.fromkeys(upper, (0.0,))
    assert grid.next(scores) == []  # the budget is spent


@pytest.mark.usefixtures("forgetful")
def test_rates_of_the_suite_replace_those_of_the_registry(monkeypatch):
    monkeypatch.setitem(OPTIMIZERS, "Own", OptimizerFacts("torch.optim:AdamW", "", "none", lr=1.0))
    monkeypatch.setitem(OPTIMIZERS, "Small", OptimizerFacts("torch.optim:AdamW", "", "none", lr_scale=0.1))
    assert rates_of("AdamW", OptimizerPlan()) == (1.0, None)
    assert rates_of("Small", OptimizerPlan()) == (0.1, None)
    assert rates_of("Small", OptimizerPlan(lr_scale=1.0)) == (1.0, None)
    assert rates_of("Own", OptimizerPlan()) == (1.0, 1.0)
    assert rates_of("Own", OptimizerPlan(lr=0.5)) == (1.0, 0.5)
    assert rates_of("Own", OptimizerPlan(lr_scale=10.0)) == (10.0, None)
    assert rates_of("Small", OptimizerPlan("own:Small")) == (1.0, None)
    assert resolve_optimizer("Own", OptimizerPlan(), ["no_argument"]).lacks == []  # nothing is searched
    assert resolve_optimizer("AdamW", OptimizerPlan(), ["eps", "momentum", "warmup_steps"]).lacks == ["momentum"]

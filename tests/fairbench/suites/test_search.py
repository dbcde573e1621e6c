"""The settings of a search, the same for every optimizer."""

import math

import pytest

from fairbench.optimizers.registry import OPTIMIZERS, OptimizerFacts
from fairbench.optimizers.resolve import rates_of, resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.search import Search, Setting, canonical
from fairbench.suites.stages import Final, Sweep

DECAYS = {"weight_decay": [0, 0.01, 0.1]}
THREE = Final([1, 2], 1)


def sweep_of(**fields):
    return Sweep(1e-4, 1e-2, [0], 1, 3, **fields)


def searched(search, score):
    """The scores of every setting that a search tries, lower is better."""
    scores = {}
    while new := search.next(scores):
        assert not scores.keys() & set(new)
        scores |= {setting: (score(setting),) for setting in new}
    return scores


def distance(setting, lr):
    """Decades from the best rate."""
    return abs(math.log10(setting.lr / lr))


def test_every_grid_tries_as_many_settings():
    """All rates are on the grid, also where the best lies inside, so that final trials compare the same rates."""
    grid = Search(sweep_of(budget=6))
    inside = searched(grid, lambda x: distance(x, 2e-3))
    beyond = searched(grid, lambda x: distance(x, 1.0))
    assert len(inside) == len(beyond) == grid.size == 6
    assert sorted(x.lr for x in beyond) == [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]
    assert sorted(x.lr for x in inside) == [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0]
    without_decay = Search(sweep_of(budget=6, extra=DECAYS), lacks=frozenset(DECAYS))
    assert len(searched(without_decay, lambda x: distance(x, 2e-3))) == without_decay.size == 18
    assert len(searched(Search(sweep_of()), lambda x: distance(x, 1.0))) == 3  # its points alone


@pytest.mark.parametrize(
    ("best", "tried"),
    [(1e-3, [1e-4, 1e-3, 1e-2]), (0.3, [1e-4, 1e-3, 1e-2, 1e-1, 1.0]), (1e-9, [1e-6, 1e-5, 1e-4, 1e-3, 1e-2])],
)
def test_final_settings_are_added_until_the_best_lies_inside(best, tried):
    """It never tries more settings than the short search, here five."""
    search = Search(sweep_of(budget=5))
    short = {Setting(lr): (distance(Setting(lr), 1e-3),) for lr in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)}
    assert sorted(x.lr for x in trained(search, short, lambda x: distance(x, best))) == pytest.approx(tried)


def trained(search, short, score):
    full = {}
    while new := search.finals(THREE, short, full):
        assert not full.keys() & set(new)
        full |= {setting: (score(setting),) for setting in new}
    return full


@pytest.mark.parametrize(("decay", "lower", "higher"), [(0.0, [], [0.01]), (0.01, [0.0], [0.1]), (0.1, [0.01], [])])
def test_lower_neighbors_are_tried_before_higher_ones(decay, lower, higher):
    betas = [(0.9, 0.99), (0.9, 0.9), (0.8, 0.9)]
    best = Setting(1e-3, (("weight_decay", decay), ("betas", betas[0])))
    grid = Search(sweep_of(extra={"weight_decay": [0.01, 0.0, 0.1], "betas": betas}))
    below, above = ([best.with_value("weight_decay", x) for x in near] for near in (lower, higher))
    low, high, other = (best.with_value(*change) for change in (("lr", 1e-4), ("lr", 1e-2), ("betas", betas[1])))
    assert grid.finals(THREE, {best: (0.0,)}, {}) == [best, low, *below, high, *above, other]
    assert grid.final_trials(THREE, 2) == 2 * 7  # at most two neighbors of each of three hyperparameters


def test_integers_among_floats_become_floats():
    def values(*given):
        return canonical(given)

    assert list(map(repr, values(0, 0.1))) == ["0.0", "0.1"]
    assert list(map(repr, values(1, 2))) == ["1", "2"]
    assert values(True, False) == [True, False]
    assert values([0.9, 0.99], [0.9, 0.999]) == [(0.9, 0.99), (0.9, 0.999)]


def test_what_a_grid_tries_beyond_its_points():
    """One rate at a time, with every value: beyond the nearer end, of equally near ones the better."""
    grid = Search(sweep_of(budget=5, extra=DECAYS))
    scores = dict.fromkeys(grid.first(), (1.0,))
    lower = grid.next({**scores, grid.first()[0]: (0.0,)})
    assert {x.lr for x in lower} == {1e-5}
    assert len(lower) == 3
    (low, *_), middle, high = (grid.first()[i : i + 3] for i in (0, 3, 6))
    best = {**scores, middle[1]: (0.0,)}
    assert {x.lr for x in grid.next({**best, high[0]: (0.5,)})} == {1e-1}
    assert {x.lr for x in grid.next({**best, low: (0.5,)})} == {1e-5}
    scores |= dict.fromkeys(lower, (1.0,))
    upper = grid.next({**scores, grid.first()[-1]: (0.0,)})
    assert {x.lr for x in upper} == {1e-1}
    assert grid.next({**scores, **dict.fromkeys(upper, (0.0,))}) == []  # the budget is spent


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

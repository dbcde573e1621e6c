"""The settings of a search, the same for every optimizer, and mistakes in a sweep."""

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from fairbench.common.errors import UsageError
from fairbench.optimizers.registry import OPTIMIZERS, OptimizerFacts
from fairbench.optimizers.resolve import rates_of, resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.loader import load_suite, parse_suite
from fairbench.suites.schema import Sweep
from fairbench.suites.search import Coordinate, Grid, Scores, Search, Setting, Sobol, best_of, canonical

DECAYS = {"weight_decay": [0, 0.01, 0.1]}
SOBOL = {"search": "sobol", "points": 0, "budget": 8, "search_seed": 7}
COORDINATE = {"search": "coordinate", "points": 3, "budget": 12}


def sweep_of(**fields: Any) -> Sweep:
    return Sweep(1e-4, 1e-2, [0], 1, **{"points": 3, **fields})


def searched(search: Search, score: Callable[[Setting], float]) -> dict[Setting, tuple[float, ...]]:
    """The scores of every setting that a search tries, lower is better."""
    scores: dict[Setting, tuple[float, ...]] = {}
    while new := search.next(scores):
        assert not scores.keys() & set(new)
        scores |= {setting: (score(setting),) for setting in new}
    return scores


def distance(setting: Setting, lr: float, **best: float) -> float:
    """Decades from the best rate, and the distance of the other values."""
    others = sum(abs(value - best[name]) for name, value in setting.extra if name in best)
    return abs(math.log10(setting.lr / lr)) + others


def test_a_sobol_sequence_is_that_of_the_docstring() -> None:
    """Points of Sobol's published direction numbers in two dimensions, shifted in exact fractions."""
    plain = [(0, 0), (4, 4), (6, 2), (2, 6), (3, 3), (7, 7), (5, 1), (1, 5)]  # eighths, Joe and Kuo
    shifts = [int(hashlib.sha256(f"7 {x}".encode()).hexdigest()[:8], 16) >> 2 for x in ("lr", "weight_decay")]
    drawn = Sobol(sweep_of(**SOBOL, extra=DECAYS)).first()
    expected = []
    for point in plain:
        u, v = (Fraction((x << 27) ^ shift, 2**30) for x, shift in zip(point, shifts, strict=True))
        rate = float(f"{10 ** (-4 + 2 * float(u)):.6g}")
        expected.append(Setting(rate, (("weight_decay", [0.0, 0.01, 0.1][int(3 * v)]),)))
    assert drawn == sorted(expected, key=lambda setting: setting.lr)
    assert [x.lr for x in drawn] == PINNED
    shorter = {*Sobol(sweep_of(**{**SOBOL, "budget": 5}, extra=DECAYS)).first()}
    assert shorter < {*drawn}
    assert len(shorter) == 5
    without = Sobol(sweep_of(**SOBOL, extra=DECAYS), lacks=frozenset(DECAYS)).first()
    assert [(x.lr, x.extra) for x in without] == [(x.lr, ()) for x in drawn]


PINNED = [0.000177334, 0.00031535, 0.00056078, 0.000997224, 0.00177334, 0.0031535, 0.0056078, 0.00997224]


@pytest.mark.parametrize("lacks", [(), ("weight_decay",), ("weight_decay", "eps")])
def test_a_coordinate_search_finds_the_best_and_spends_its_budget(lacks: tuple[str, ...]) -> None:
    """Where hyperparameters do not interact it finds the best of the whole grid; what an optimizer lacks is refined."""
    extra = {"weight_decay": [0.01, 0.0, 0.1], "eps": [1e-8, 1e-4, 1e-2]}
    search = Coordinate(sweep_of(**COORDINATE, extra=extra), lacks=frozenset(lacks))
    scores = searched(search, lambda x: distance(x, 6e-4, weight_decay=0.1, eps=1e-4))
    best = best_of(scores)
    assert len(scores) == 12
    assert dict(best.extra) == {name: x for name, x in (("weight_decay", 0.1), ("eps", 1e-4)) if name not in lacks}
    assert abs(math.log10(best.lr / 6e-4)) < {0: 0.23, 1: 0.13, 2: 0.03}[len(lacks)]
    assert list(scores)[:3] == [
        Setting(lr, tuple((n, v[0]) for n, v in extra.items() if n not in lacks)) for lr in (1e-4, 1e-3, 1e-2)
    ]


def test_a_coordinate_search_starts_once_more_at_another_rate() -> None:
    """With the first decay the middle rate is the best; the best of all is the highest rate with another decay."""
    search = Coordinate(sweep_of(**{**COORDINATE, "budget": 7}, extra={"weight_decay": [0.01, 0.0, 0.1]}))
    known = {(1e-3, 0.01): 0.5, (1e-2, 0.01): 0.6, (1e-2, 0.1): 0.0}
    scores = searched(search, lambda x: known.get((x.lr, dict(x.extra)["weight_decay"]), 1.0))
    assert best_of(scores) == Setting(1e-2, (("weight_decay", 0.1),))


def test_a_coordinate_search_never_exceeds_its_budget() -> None:
    """Also where the budget ends in the middle of a line."""
    extra = {"weight_decay": [0.01, 0.0, 0.1]}
    for budget in range(3, 9):
        search = Coordinate(sweep_of(**{**COORDINATE, "budget": budget}, extra=extra))
        assert len(searched(search, lambda x: distance(x, 6e-4, weight_decay=0.1))) == budget


def test_every_grid_tries_as_many_settings() -> None:
    """Where the best lies inside, rates around it are tried, which come closer to it."""
    grid = Grid(sweep_of(budget=6))
    inside = searched(grid, lambda x: distance(x, 2e-3))
    beyond = searched(grid, lambda x: distance(x, 1.0))
    assert len(inside) == len(beyond) == grid.size == 6
    assert sorted(x.lr for x in beyond) == [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]
    assert sorted(x.lr for x in inside) == pytest.approx([1e-4, 1e-3, 10**-2.75, 10**-2.625, 10**-2.5, 1e-2], rel=1e-5)
    without_decay = Grid(sweep_of(budget=6, extra=DECAYS), lacks=frozenset(DECAYS))
    assert len(searched(without_decay, lambda x: distance(x, 2e-3))) == without_decay.size == 18
    assert len(searched(Grid(sweep_of()), lambda x: distance(x, 1.0))) == 3  # its points alone


@pytest.mark.parametrize(
    ("best", "tried"),
    [(1e-3, [1e-4, 1e-3, 1e-2]), (0.3, [1e-4, 1e-3, 1e-2, 1e-1, 1.0]), (1e-9, [1e-6, 1e-5, 1e-4, 1e-3, 1e-2])],
)
def test_a_selection_is_confirmed_until_the_best_lies_inside(best: float, tried: list[float]) -> None:
    """It never tries more settings than the short search, here five."""
    search = Grid(sweep_of(budget=5, confirm=1))
    short = {Setting(lr): (distance(Setting(lr), 1e-3),) for lr in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)}
    assert sorted(x.lr for x in confirmed(search, short, lambda x: distance(x, best))) == pytest.approx(tried)


def confirmed(search: Search, short: Scores, score: Callable[[Setting], float]) -> Scores:
    full: dict[Setting, tuple[float, ...]] = {}
    while new := search.confirm(short, full):
        assert not full.keys() & set(new)
        full |= {setting: (score(setting),) for setting in new}
    return full


def test_neighbors_differ_in_one_hyperparameter() -> None:
    search = Grid(sweep_of(confirm=1, extra={"weight_decay": [0.01, 0.0, 0.1], "betas": [[0.9, 0.9], [0.9, 0.99]]}))
    short = searched(search, lambda x: distance(x, 1e-3, weight_decay=0.0))
    (best, *others) = search.confirm(short, {})
    assert best == Setting(1e-3, (("weight_decay", 0.0), ("betas", (0.9, 0.9))))
    expected = [("lr", 1e-4), ("lr", 1e-2), ("weight_decay", 0.01), ("betas", (0.9, 0.99))]
    assert set(others) == {best.with_value(*change) for change in expected}
    assert len(search.confirm(short, {})) <= search.neighborhood


@pytest.mark.parametrize(("decay", "lower", "higher"), [(0.0, [], [0.01]), (0.01, [0.0], [0.1]), (0.1, [0.01], [])])
def test_lower_neighbors_are_tried_before_higher_ones(decay, lower, higher) -> None:
    betas = [(0.9, 0.99), (0.9, 0.9), (0.8, 0.9)]
    best = Setting(1e-3, (("weight_decay", decay), ("betas", betas[0])))
    grid = Grid(sweep_of(confirm=1, extra={"weight_decay": [0.01, 0.0, 0.1], "betas": betas}))
    below, above = ([best.with_value("weight_decay", x) for x in near] for near in (lower, higher))
    low, high, other = (best.with_value(*change) for change in (("lr", 1e-4), ("lr", 1e-2), ("betas", betas[1])))
    assert grid.confirm({best: (0.0,)}, {}) == [best, low, *below, high, *above, other]


def test_a_sobol_selection_is_confirmed_by_rank() -> None:
    search = Sobol(sweep_of(**SOBOL, confirm=1))
    short = searched(search, lambda x: x.lr)
    ranked = sorted(short, key=lambda x: x.lr)
    assert list(confirmed(search, short, lambda x: x.lr)) == ranked[:3]
    assert list(confirmed(search, short, lambda x: -x.lr)) == ranked
    assert search.confirm(short, {x: (-x.lr,) for x in ranked[:3]}) == ranked[3:4]
    assert list(confirmed(search, short, lambda x: abs(x.lr - ranked[3].lr))) == ranked[:5]


def test_integers_among_floats_become_floats() -> None:
    def values(*given):
        return canonical(given)

    assert list(map(repr, values(0, 0.1))) == ["0.0", "0.1"]
    assert list(map(repr, values(1, 2))) == ["1", "2"]
    assert values(True, False) == [True, False]
    assert values([0.9, 0.99], [0.9, 0.999]) == [(0.9, 0.99), (0.9, 0.999)]


def test_what_a_grid_tries_beyond_its_points() -> None:
    """One rate at a time, with every value: beyond the best at the edge, otherwise toward its better neighbor."""
    grid = Grid(sweep_of(budget=5, extra=DECAYS))
    scores = dict.fromkeys(grid.first(), (1.0,))
    lower = grid.next({**scores, grid.first()[0]: (0.0,)})
    assert {x.lr for x in lower} == {1e-5}
    assert len(lower) == 3
    scores |= dict.fromkeys(lower, (1.0,))
    upper = grid.next({**scores, grid.first()[-1]: (0.0,)})
    assert {x.lr for x in upper} == {1e-1}
    assert grid.next({**scores, **dict.fromkeys(upper, (0.0,))}) == []  # the budget is spent
    (low, *_), middle, high = (grid.first()[i : i + 3] for i in (0, 3, 6))
    best = {**scores, middle[1]: (0.0,)}
    assert {x.lr for x in grid.next({**best, high[0]: (0.5,)})} == {3.16228e-3}
    assert {x.lr for x in grid.next({**best, low: (0.5,)})} == {3.16228e-4}


@pytest.mark.usefixtures("forgetful")
def test_rates_of_the_suite_replace_those_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
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


GRID = {"search": "grid", "points": 3, "budget": 0, "search_seed": 0, "extra": {}}
WARMUPS = {"extra": {"warmup_steps": [0, 100]}}


def suite_with(sweep, **adamw):
    content = load_suite("smoke").to_json()
    content["sweep"] = {**content["sweep"], **GRID, **sweep}
    content["optimizers"]["AdamW"] = {**content["optimizers"]["AdamW"], **adamw}
    return parse_suite(content, "test")


@pytest.mark.parametrize(
    ("sweep", "adamw", "complaint"),
    [
        ({"search": "sobl"}, {}, "sweep.search: unknown search 'sobl'; did you mean 'sobol'"),
        ({"points": 0}, {}, "sweep.points: is missing: a grid search needs it"),
        ({"budget": 2}, {}, "sweep.budget: must be at least points = 3, got 2"),
        ({"search_seed": 5}, {}, "sweep.search_seed: is not a key of a grid search, which has points, budget$"),
        ({"search": "sobol"}, {}, "sweep.points: is not a key of a sobol search, which has budget, search_seed"),
        ({"search": "sobol", "points": 0}, {}, "sweep.budget: is missing: a sobol search needs it"),
        ({**COORDINATE, "budget": 0}, {}, "sweep.budget: is missing: a coordinate search needs it"),
        ({**SOBOL, "budget": 1}, {}, r"sweep.budget: must lie in \[2, 1000\], got 1"),
        ({**SOBOL, "lr_max": 1.00001e-3}, {}, "sweep.budget: gives rates that are not distinct"),
        ({"lr_max": 1e99, "budget": 100}, {}, "sweep.points: gives rates that are not finite"),
        ({"confirm": 11}, {}, r"sweep.confirm: must lie in \[0, 10\], got 11"),
        (WARMUPS, {}, "sweep.extra.warmup_steps: must be at most 5, since the shortest trials have 6 steps; got 100"),
        ({"extra": {"warmup_steps": [0, 0.5]}}, {}, "sweep.extra.warmup_steps: must be whole numbers of steps"),
        ({"extra": {"lr": [1, 2]}}, {}, "sweep.extra.lr: is always searched"),
        ({"extra": {"eps": [1e-8]}}, {}, r"sweep.extra.eps: must be two or more values, each once, got \[1e-08\]"),
        ({"extra": {"eps": [1, 1.0]}}, {}, "sweep.extra.eps: must be two or more values, each once"),
        ({"extra": {"eps": [1, math.nan]}}, {}, "sweep.extra.eps: must be finite, got nan"),
        ({"extra": {"eps": [1, {"a": 1}]}}, {}, "sweep.extra.eps: must be numbers, strings, true or false, or lists"),
        ({"extra": {"weight_decay": [0, -1]}}, {}, "sweep.extra.weight_decay: must be finite and not negative, got -1"),
        ({"extra": {"eps": 1}}, {}, "sweep.extra.eps: must be a list, got 1"),
        ({"extra": DECAYS}, {"options": {"weight_decay": 1}}, "AdamW.options.weight_decay: is selected by the sweep"),
        (
            {"extra": {"eps": [1, 2]}},
            {"arenas": {"vit": {"eps": 1}}},
            "AdamW.arenas.vit.eps: is selected by the sweep",
        ),
        ({}, {"lr": 1.0, "lr_scale": 1.0}, "AdamW.lr_scale: scales searched rates, but with lr none is searched"),
        ({}, {"lr": 0.0}, "AdamW.lr: must be positive and finite, got 0.0"),
        ({}, {"lr_scale": math.inf}, "AdamW.lr_scale: must be positive and finite, got inf"),
        ({}, {"lr_scale": 1e-323}, "AdamW.lr_scale: gives rates that are not distinct, positive and finite"),
        (
            {},
            {"lr": 1.0, "options": {"lr": 1.0}},
            "AdamW.options.lr: .* of AdamW none is searched: give lr outside options",
        ),
    ],
)
def test_mistakes_are_named(sweep, adamw, complaint) -> None:
    with pytest.raises(UsageError, match=complaint):
        suite_with(sweep, **adamw)


@pytest.mark.parametrize(
    "sweep", [{"extra": {"eps": [0, 1e-8]}}, {**SOBOL, "extra": {"betas": [[0.9, 0.99], [0.9, 0.999]]}}]
)
def test_searches_survive_json(sweep) -> None:
    suite = suite_with(sweep, lr=1.0)
    assert suite.optimizers["AdamW"].lr == 1.0
    assert parse_suite(suite.to_json(), "json") == suite

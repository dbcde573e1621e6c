"""The settings of a search, the same for every optimizer, and mistakes in a sweep."""

import hashlib
import math
from dataclasses import replace
from fractions import Fraction

import pytest

from fairbench.common.errors import UsageError
from fairbench.optimizers.registry import OPTIMIZERS, OptimizerFacts
from fairbench.optimizers.resolve import rates_of, resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.loader import load_suite, parse_suite
from fairbench.suites.schema import Sweep
from fairbench.suites.search import Grid, Random, Setting, extras

DECAYS = {"weight_decay": [0, 0.01, 0.1]}
DRAWN = {"search": "random", "points": 0, "max_extensions": 0, "budget": 4, "search_seed": 7}


def test_draws_are_pinned() -> None:
    """By the formula of the docstring in exact fractions, and as numbers that must never change."""

    def uniform(k: int, name: str) -> Fraction:
        bits = bin(int(hashlib.sha256(f"7 {k} {name}".encode()).hexdigest(), 16))[2:].zfill(256)
        return Fraction(int(bits[:53], 2), 2**53)

    sweep = Sweep(1e-4, 1e-2, [0], 1, search="random", budget=4, search_seed=7, extra=DECAYS)
    drawn = Random(sweep).first()
    expected = []
    for k in range(4):
        decay = [0.0, 0.01, 0.1][int(3 * uniform(k, "extra"))]
        expected.append(Setting(float(f"{10 ** (-4 + 2 * float(uniform(k, 'lr'))):.6g}"), (("weight_decay", decay),)))
    assert drawn == sorted(expected, key=lambda setting: setting.lr)
    assert [(x.lr, *x.extra) for x in drawn] == PINNED
    assert set(Random(replace(sweep, budget=3)).first()) < set(drawn)
    assert [x.lr for x in Random(replace(sweep, extra={})).first()] == [x.lr for x in drawn]


PINNED = [
    (0.000461503, ("weight_decay", 0.1)),
    (0.00066289, ("weight_decay", 0.1)),
    (0.000664394, ("weight_decay", 0.01)),
    (0.00890526, ("weight_decay", 0.1)),
]


def test_integers_among_floats_become_floats() -> None:
    def values(*given):
        return [extra[0][1] for extra in extras(Sweep(1e-4, 1e-2, [0], 1, extra={"x": list(given)}))]

    assert list(map(repr, values(0, 0.1))) == ["0.0", "0.1"]
    assert list(map(repr, values(1, 2))) == ["1", "2"]
    assert values(True, False) == [True, False]
    assert values([0.9, 0.99], [0.9, 0.999]) == [(0.9, 0.99), (0.9, 0.999)]


def test_a_grid_is_extended_on_both_sides_in_turn() -> None:
    grid = Grid(Sweep(1e-4, 1e-2, [0], 1, points=3, max_extensions=2, extra=DECAYS))
    tried = grid.first()
    lower = grid.more(tried, tried[0])
    assert {x.lr for x in lower} == {1e-5}
    assert len(lower) == 3
    upper = grid.more([*lower, *tried], tried[-1])
    assert {x.lr for x in upper} == {1e-1}
    assert grid.more([*lower, *tried, *upper], upper[0]) == []
    assert grid.more(tried, tried[4]) == []


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
    assert (
        resolve_optimizer("Own", OptimizerPlan(), ["no_argument"]).lr == 1.0
    )  # without a search, the argument is not needed


def test_an_optimizer_without_the_argument_is_named() -> None:
    with pytest.raises(UsageError, match=r"optimizers\.AdamW: .* has no argument momentum, which the sweep selects"):
        resolve_optimizer("AdamW", OptimizerPlan(), ["momentum"])


GRID = {"search": "grid", "points": 3, "max_extensions": 1, "budget": 0, "search_seed": 0, "extra": {}}


def suite_with(sweep, **adamw):
    content = load_suite("smoke").to_json()
    content["sweep"] = {**content["sweep"], **GRID, **sweep}
    content["optimizers"]["AdamW"] = {**content["optimizers"]["AdamW"], **adamw}
    return parse_suite(content, "test")


@pytest.mark.parametrize(
    ("sweep", "adamw", "complaint"),
    [
        ({"search": "rndom"}, {}, "sweep.search: unknown search 'rndom'; did you mean 'random'"),
        ({"points": 0}, {}, "sweep.points: is missing: a grid search needs it"),
        ({"budget": 5}, {}, 'sweep.budget: belongs to search = "random"; a grid search has points; leave it out'),
        ({"search_seed": 5}, {}, 'sweep.search_seed: belongs to search = "random"'),
        ({"search": "random"}, {}, 'sweep.points: belongs to search = "grid"; a random search has budget'),
        ({"search": "random", "points": 0}, {}, 'sweep.max_extensions: belongs to search = "grid"'),
        ({**DRAWN, "budget": 0}, {}, "sweep.budget: is missing: a random search needs it"),
        ({**DRAWN, "budget": 1}, {}, r"sweep.budget: must lie in \[2, 1000\], got 1"),
        ({**DRAWN, "lr_max": 1.00001e-3}, {}, "sweep.budget: gives rates that are not distinct"),
        (
            {"extra": {"eps": [1, 2], "momentum": [0, 1]}},
            {},
            "at most one hyperparameter can be searched with lr, got eps, m",
        ),
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
    "sweep", [{"extra": {"eps": [0, 1e-8]}}, {**DRAWN, "extra": {"betas": [[0.9, 0.99], [0.9, 0.999]]}}]
)
def test_searches_survive_json(sweep) -> None:
    suite = suite_with(sweep, lr=1.0)
    assert suite.optimizers["AdamW"].lr == 1.0
    assert parse_suite(suite.to_json(), "json") == suite

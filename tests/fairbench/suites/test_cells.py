"""Arenas that a suite file makes of one: their names, steps, models and optimizers."""

import pytest

from fairbench.arenas.registry import load_arena
from fairbench.arenas.sizes import SIZED
from fairbench.common.errors import UsageError
from fairbench.data.loading import load_source
from fairbench.suites.cells import with_cells
from fairbench.suites.loader import load_suite, parse_suite
from fairbench.suites.overrides import Overrides

SUITE = """
description = "cells"
reference = "AdamW"
alpha = 0.05
{top}
[sweep]
lr_min = 1e-4
lr_max = 1e-2
points = 3
seeds = [0]
evaluations = 1
[final]
seeds = [1, 2]
evaluations = 1
[training]
clip_norm = 1.0
warmup_steps = 1
log_every = 1
[arenas.gpt]
metric = "loss"
margin = 0.02
sweep_steps = 40
steps = 100
batch_size = 8
data = {{ source = "stdlib", context = 64, evaluated = 128 }}
model = {{ hidden_size = 32, layers = 2, heads = 2 }}
[optimizers.AdamW]
[optimizers.Adam]
arenas = {{ gpt = {{ eps = 1e-7 }} }}
{bottom}
"""
LADDER = "[ladder.gpt]\nsizes = [32, 64]\nhorizons = [0.5, 2]"


@pytest.fixture
def suite(tmp_path):
    """Loads a suite with further lines at its top and its end."""

    def load(top="", bottom="", **changes):
        file = tmp_path / "cells.toml"
        file.write_text(SUITE.format(top=top, bottom=bottom))
        return load_suite(str(file), Overrides(**changes))

    return load


def test_horizons_are_trained_by_the_reference_alone(suite) -> None:
    found = suite("horizons = [0.5, 1, 2]")
    assert {name: (x.steps, x.sweep_steps) for name, x in found.arenas.items()} == {
        "gpt": (100, 40),
        "gpt-x0.5": (50, 20),
        "gpt-x2": (200, 80),
    }
    assert found.arms == [("gpt", "AdamW"), ("gpt", "Adam"), ("gpt-x0.5", "AdamW"), ("gpt-x2", "AdamW")]
    assert found.compared == [("gpt", "AdamW", "Adam")]
    assert suite("horizons = [0.5, 1, 2]", reference="Adam").arms[2:] == [("gpt-x0.5", "Adam"), ("gpt-x2", "Adam")]


def test_a_ladder_trains_every_optimizer_for_as_many_steps_as_the_model_has_parameters(suite) -> None:
    found = suite(bottom=LADDER)
    assert {name: (x.steps, x.sweep_steps, x.cell.parameters) for name, x in found.arenas.items()} == {
        "gpt-32-x0.5": (50, 20, 24_576),
        "gpt-32-x2": (200, 80, 24_576),
        "gpt-64-x0.5": (400, 160, 196_608),
        "gpt-64-x2": (1600, 640, 196_608),
    }
    assert found.arenas["gpt-64-x2"].model == {"hidden_size": 64, "layers": 4, "heads": 4}
    assert len(found.compared) == 4
    assert found.optimizers["Adam"].arenas == {name: {"eps": 1e-7} for name in found.arenas}


@pytest.mark.parametrize(
    ("task", "source", "model", "sizes"),
    [
        (
            "gpt",
            {"source": "stdlib", "context": 16, "evaluated": 8},
            {"hidden_size": 32, "layers": 2, "heads": 2},
            (64, 96),
        ),
        ("vit", {"source": "digits"}, {"hidden_size": 32, "layers": 2, "heads": 2, "patch_size": 4}, (64, 96)),
        ("resnet", {"source": "digits", "image_size": 32}, {"width": 8}, (16, 24)),
    ],
)
def test_parameters_are_those_of_the_model(task, source, model, sizes, tmp_path) -> None:
    """All weights but embeddings, norms, biases and the layers that touch inputs or outputs, as Kaplan et al. count."""
    data, arena = load_source(source, tmp_path), load_arena(task)
    for size in sizes:
        options, counted = SIZED[task](model, size)
        weights = dict(arena.build_model(data, **options).named_parameters())
        inner = [p for name, p in weights.items() if p.dim() > 1 and "wte" not in name]
        assert counted == sum(p.numel() for p in inner if p.shape[0] % size == 0 and p[0].numel() % size == 0)


def test_steps_of_a_command_keep_the_proportions(suite) -> None:
    steps = [x.steps for x in suite("horizons = [0.5, 2]", steps=20).arenas.values()]
    assert steps == [20, 10, 40]
    assert [x.steps for x in suite(bottom=LADDER, steps=10).arenas.values()] == [10, 40, 80, 320]


def test_an_arena_of_the_file_stands_for_its_cells(suite) -> None:
    assert [*suite(bottom=LADDER, arenas=["gpt"]).arenas] == [*suite(bottom=LADDER).arenas]
    assert [*suite("horizons = [2]", arenas=["gpt"]).arenas] == ["gpt", "gpt-x2"]
    assert [*suite(bottom=LADDER, arenas=["gpt-32-x2"]).arenas] == ["gpt-32-x2"]


def test_schedules_and_shocks_go_with_horizons(suite) -> None:
    found = suite('schedules = ["cosine", "linear"]\nhorizons = [2]', '[shock.loss]\nkind = "loss"\nat = [0.5]')
    assert [*found.arenas] == [
        "gpt-cosine", "gpt-cosine-x2", "gpt-linear", "gpt-linear-x2", "gpt-cosine-loss", "gpt-linear-loss",
    ]  # fmt: skip
    assert [x.schedule for x in found.arenas.values()] == ["cosine", "cosine", "linear", "linear", "cosine", "linear"]
    assert found.arenas["gpt-linear-x2"].cell.curve_of == "gpt-linear"


def test_a_stored_suite_is_read_as_it_is(suite) -> None:
    found = suite("horizons = [0.5, 2]")
    assert parse_suite(found.to_json(), "config.json") == found


@pytest.mark.parametrize(
    ("top", "bottom", "message"),
    [
        ("horizons = [1, 1]", "", r"horizons: must be positive numbers that rise, got \[1.0, 1.0\]"),
        ("horizons = [2, 1]", "", r"horizons: must be positive numbers that rise, got \[2.0, 1.0\]"),
        ("horizons = [0]", "", "horizons: must be positive"),
        ("horizons = [2]", '[arenas."gpt-x2"]\ntask = "gpt"', "arenas.gpt-x2: has the name of an arena .* made of gpt"),
        ("horizons = [2]", LADDER, "horizons: a suite with a ladder has them there"),
        ("", "[ladder.gtp]\nsizes = [32]\nhorizons = [1]", "ladder.gtp: unknown arena 'gtp'; did you mean 'gpt'"),
        ("", "[ladder.gpt]\nsizes = [32, 41]\nhorizons = [1]", "ladder.gpt.sizes: has 41, which gives 3 heads"),
        ("", "[ladder.gpt]\nsizes = [32]\nhorizons = []", "ladder.gpt.horizons: must be positive"),
        ('ladder = ["AdamW", "Adam"]', "", "ladder: has a table for each arena, as .*controls"),
    ],
)
def test_mistakes_are_named(suite, top, bottom, message) -> None:
    with pytest.raises(UsageError, match=message):
        suite(top, bottom)


def test_what_is_no_table_is_left_to_the_checks() -> None:
    for arenas in (3, {"gpt": 3}):
        assert with_cells({"horizons": [2], "arenas": arenas}) == {"arenas": arenas}


def test_only_arenas_with_a_rule_have_sizes(suite, tmp_path) -> None:
    ddpm = """[arenas.ddpm]
metric = "mse"
margin = 0.1
sweep_steps = 2
steps = 4
batch_size = 4
data = { source = "digits" }
model = { channels = [8], norm_groups = 4, attention_levels = [] }
[ladder.ddpm]
sizes = [8]
horizons = [1]"""
    with pytest.raises(UsageError, match=r"ladder\.ddpm\.sizes: arena DDPM has no method sized"):
        suite(bottom=ddpm)

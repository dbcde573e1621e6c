"""Suites: the included ones, and the arenas that a file makes of one."""

import inspect
from dataclasses import replace

import pytest
from fabricated import study
from tiny import TINY, write_tiny

from fairbench.arenas.registry import ARENAS, SIZED, load_arena
from fairbench.cli.options import chosen_suite
from fairbench.cli.parser import parser
from fairbench.common.errors import UsageError
from fairbench.data.loading import load_source
from fairbench.optimizers.treatments import schedule
from fairbench.study.plan import trial_spec
from fairbench.suites.loader import changed, load_suite, parse_suite, suite_names
from fairbench.suites.overrides import Overrides
from fairbench.suites.schema import Compare
from fairbench.suites.settings import with_settings


@pytest.mark.parametrize("name", suite_names())
def test_the_included_suites_are_valid_and_survive_json(name):
    suite = load_suite(name)
    assert parse_suite(suite.to_json(), "json") == suite


def test_mini_gives_every_optimizer_the_same_treatment():
    suite = load_suite("mini")
    assert list(suite.arenas) == ["gpt", "vit", "resnet", "ddpm"]
    assert list(suite.optimizers) == ["Adam", "AdamW", "Lion", "PsiLogic"]
    assert len(suite.final.seeds) == 8
    assert not set(suite.final.seeds) & set(suite.sweep.seeds)
    for option in ("grad_centralize", "agc_clip"):
        assert option not in suite.optimizers["PsiLogic"].options


@pytest.mark.xdist_group("loader")
@pytest.mark.parametrize("name", ARENAS)
def test_the_declared_options_are_the_arenas_arguments(name):
    arena, facts = load_arena(name), ARENAS[name]
    assert list(inspect.signature(arena.build_model).parameters)[1:] == list(facts.model_options)


@pytest.mark.parametrize("name", ["AdamW, clipped", "+groups", "-0.5", "β₂ = 0"])
def test_names_that_every_file_can_hold_are_taken(tiny_file, name):
    text = TINY.replace(
        "[optimizers.AdamW]", f'[optimizers.AdamW]\n[optimizers."{name}"]\nfactory = "torch.optim:AdamW"'
    )
    tiny_file.write_text(text.replace("[arenas.vit]", '[arenas."small images"]\ntask = "vit"'))
    suite = load_suite(str(tiny_file))
    assert name in suite.optimizers
    assert "small images" in suite.arenas


def test_a_run_without_a_rung_has_no_control_ladder(tiny_file):
    tiny_file.write_text(
        TINY.replace("alpha", "compare = { baselines = ['all'] }\ncontrols = ['AdamW', 'PsiLogic']\nalpha", 1)
    )
    for more, controls in ([], ["AdamW", "PsiLogic"]), (["--optimizers", "AdamW,Lion", "--reference", "Lion"], []):
        suite = chosen_suite(parser().parse_args(["run", "--suite", str(tiny_file), *more]))
        assert (suite.compare, suite.controls) == (Compare(baselines=["all"]), controls)
        assert parse_suite(suite.to_json(), "json") == suite


def test_a_file_with_the_name_of_an_included_suite_is_refused(tiny_file):
    with pytest.raises(UsageError, match="fairbench includes a suite of that name; rename the file"):
        load_suite(str(tiny_file.rename(tiny_file.with_name("mini.toml"))))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00"])
def test_a_file_without_text_is_named(tiny_file, content):
    suite = load_suite(str(tiny_file))
    tiny_file.write_bytes(b"\xef\xbb\xbf" + tiny_file.read_bytes())  # a byte order mark is ignored
    assert load_suite(str(tiny_file)) == suite
    tiny_file.write_bytes(content)
    with pytest.raises(UsageError, match=r"tiny\.toml(, line 1: | cannot be read: )"):
        load_suite(str(tiny_file))


GPT = """[arenas.gpt]
metric = "loss"
margin = 0.02
sweep_steps = 40
steps = 100
batch_size = 8
data = { source = "stdlib", context = 64, evaluated = 128 }
model = { hidden_size = 32, layers = 2, heads = 2 }
[optimizers.AdamW]
[optimizers.PsiLogic]
arenas = { gpt = { eps = 1e-7 } }
"""
LADDER = "[ladder.gpt]\nsizes = [32, 64]\nhorizons = [0.5, 2]"


def loaded(folder, top="", bottom="", **changes):
    """The tiny study with gpt, and further lines at its top and its end."""
    text = f"{top}\n{TINY.partition('[arenas.vit]')[0]}{GPT}{bottom}"
    return load_suite(str(write_tiny(folder, text)), Overrides(**changes))


def test_horizons_are_trained_by_the_reference_alone(tmp_path):
    found = loaded(tmp_path, "horizons = [0.5, 1, 2]")
    assert {name: (x.steps, x.sweep_steps) for name, x in found.arenas.items()} == {
        "gpt": (100, 40),
        "gpt-x0.5": (50, 20),
        "gpt-x2": (200, 80),
    }
    curve = [("gpt-x0.5", "AdamW"), ("gpt-x2", "AdamW")]
    assert found.arms == [("gpt", "AdamW"), ("gpt", "PsiLogic"), *curve]
    assert found.compared == [("gpt", "PsiLogic", "AdamW")]
    assert loaded(tmp_path, "horizons = [0.5]", reference="PsiLogic").arms[2:] == [("gpt-x0.5", "PsiLogic")]
    assert parse_suite(found.to_json(), "config.json") == found


def test_a_ladder_trains_every_optimizer_for_as_many_steps_as_the_model_has_parameters(tmp_path):
    found = loaded(tmp_path, bottom=LADDER)
    assert {name: (x.steps, x.sweep_steps, x.ladder_point and x.ladder_point.parameters) for name, x in found.arenas.items()} == {
        "gpt-32-x0.5": (50, 20, 24_576), "gpt-32-x2": (200, 80, 24_576), "gpt-64-x0.5": (400, 160, 196_608),
        "gpt-64-x2": (1600, 640, 196_608),
    }  # fmt: skip
    assert found.arenas["gpt-64-x2"].model == {"hidden_size": 64, "layers": 4, "heads": 4}
    assert len(found.compared) == 4
    assert found.optimizers["PsiLogic"].arenas == {name: {"eps": 1e-7} for name in found.arenas}


@pytest.mark.parametrize(
    ("task", "source", "model"),
    [
        ("gpt", {"source": "stdlib", "context": 16, "evaluated": 8}, {"hidden_size": 32, "layers": 2, "heads": 2}),
        ("vit", {"source": "digits"}, {"hidden_size": 32, "layers": 2, "heads": 2, "patch_size": 4}),
        ("resnet", {"source": "digits", "image_size": 32}, {"width": 8}),
    ],
)
def test_parameters_are_those_of_the_model(task, source, model, tmp_path):
    """All weights but embeddings, norms, biases and the layers that touch inputs or outputs, as Kaplan et al. count."""
    data, arena = load_source(source, tmp_path), load_arena(task)
    for factor in (2, 3):
        size = factor * model.get("hidden_size", model.get("width"))
        options, counted = SIZED[task](model, size)
        weights = dict(arena.build_model(data, **options).named_parameters())
        inner = [p for name, p in weights.items() if p.dim() > 1 and "wte" not in name]
        assert counted == sum(p.numel() for p in inner if p.shape[0] % size == 0 and p[0].numel() % size == 0)


def test_steps_of_a_command_keep_the_proportions(tmp_path):
    def steps(top, bottom="", **changes):
        return [x.steps for x in loaded(tmp_path, top, bottom, **changes).arenas.values()]

    assert steps("horizons = [0.5, 2]", steps=20) == [20, 10, 40]
    assert steps("horizons = [0.5, 2]", steps=20, arenas=["gpt-x2"]) == [20]
    assert steps("", LADDER, steps=10) == [10, 40, 80, 320]


def test_an_arena_of_the_file_stands_for_its_cells(tmp_path):
    assert [*loaded(tmp_path, bottom=LADDER, arenas=["gpt"]).arenas] == [*loaded(tmp_path, bottom=LADDER).arenas]
    assert [*loaded(tmp_path, "horizons = [2]", arenas=["gpt"]).arenas] == ["gpt", "gpt-x2"]
    assert [*loaded(tmp_path, bottom=LADDER, arenas=["gpt-32-x2"]).arenas] == ["gpt-32-x2"]


def test_schedules_and_shocks_go_with_horizons(tmp_path):
    shock = '[shock.loss]\nkind = "loss"\nat = [0.5]\n[shock.inputs]\nkind = "inputs"\nat = [0.5]'  # it has no inputs
    found = loaded(tmp_path, 'schedules = ["cosine", "linear"]\nhorizons = [2]', shock)
    assert {name: (x.schedule, x.tuning_arena) for name, x in found.arenas.items()} == {
        "gpt-cosine": ("cosine", ""), "gpt-cosine-x2": ("cosine", ""), "gpt-linear": ("linear", ""),
        "gpt-linear-x2": ("linear", ""), "gpt-cosine-loss": ("cosine", "gpt-cosine"),
        "gpt-linear-loss": ("linear", "gpt-linear"),
    }  # fmt: skip
    assert [x.ladder_point.reference_curve_arena for x in found.arenas.values() if x.ladder_point][:4] == [
        "",
        "gpt-cosine",
        "",
        "gpt-linear",
    ]
    assert parse_suite(found.to_json(), "config.json") == found


def test_the_optimizers_schedule_comes_first_then_the_arenas_then_the_trainings():
    the_study = study(("gpt", "vit"), ("AdamW", "PsiLogic"))
    settings = {
        "training.schedule": "wsd", "training.min_lr": 0.1, "arenas.gpt.schedule": "linear",
        "optimizers.AdamW.schedule": "constant", "optimizers.PsiLogic.min_lr": 0.0,
    }  # fmt: skip
    suite = with_settings(the_study.suite, settings)
    found = {(arena, name): suite.schedule(arena, name) for arena in suite.arenas for name in suite.optimizers}
    assert found == {
        ("gpt", "AdamW"): ("constant", 0.1), ("gpt", "PsiLogic"): ("linear", 0.0),
        ("vit", "AdamW"): ("constant", 0.1), ("vit", "PsiLogic"): ("wsd", 0.0),
    }  # fmt: skip
    for (arena, name), expected in found.items():
        training = trial_spec(replace(the_study, suite=suite), arena, name, "final", 1e-3, 1).training
        assert (training.schedule, training.min_lr) == expected


def test_a_schedule_in_words():
    assert schedule((), "cosine", 0.0) == "warm-up and cosine"
    assert schedule((), "wsd", 0.1) == "warm-up, constant, linear decay at the end to 0.1 of the peak"
    assert schedule(("constant_lr",), "linear", 0.1) == schedule((), "constant", 0.1) == "warm-up only"


ALL_BUT_IT = [("PsiLogic", "AdamW"), ("PsiLogic", "Adam"), ("PsiLogic", "Lion")]


@pytest.mark.parametrize(
    ("compare", "changes", "pairs"),
    [
        ({}, {}, [("Adam", "AdamW"), ("Lion", "AdamW"), ("PsiLogic", "AdamW")]),
        ({"optimizers": ["PsiLogic"], "baselines": ["all"]}, {}, ALL_BUT_IT),
        ({"optimizers": ["PsiLogic"], "baselines": ["Lion"]}, {}, ALL_BUT_IT[2:]),
        ({"optimizers": ["Lion", "AdamW"], "baselines": ["AdamW", "Lion"]}, {}, [("Lion", "AdamW")]),
        (
            {"baselines": ["all"]},
            {"optimizers": ["Lion", "Adam", "AdamW"]},
            [("Lion", "AdamW"), ("Adam", "AdamW"), ("Adam", "Lion")],
        ),
        ({"baselines": ["all"]}, {"optimizers": ["AdamW", "Lion"], "reference": "Lion"}, [("AdamW", "Lion")]),
        ({"optimizers": ["PsiLogic"], "baselines": ["all"]}, {"optimizers": ["AdamW", "Lion"]}, [("Lion", "AdamW")]),
        ({"baselines": ["Lion", "Adam"]}, {"optimizers": ["AdamW", "Lion"]}, [("AdamW", "Lion")]),
        (
            {"optimizers": ["PsiLogic"], "baselines": ["all"]},
            {"reference": "Lion"},
            [("Adam", "Lion"), ("AdamW", "Lion"), ("PsiLogic", "Lion")],
        ),
        (
            {"optimizers": ["PsiLogic"], "baselines": ["all"]},
            {"optimizers": ["AdamW", "Lion"], "added": ["Muon"]},
            [("Muon", "AdamW"), ("Muon", "Lion")],
        ),
    ],
)
def test_the_pairs_of_a_suite_and_of_what_a_command_leaves_of_it(compare, changes, pairs):
    settled = changed(
        load_suite("mini"),
        Overrides(settings={f"compare.{key}": compare.get(key, []) for key in ("optimizers", "baselines")}),
    )
    assert changed(settled, Overrides(**changes)).pairs == pairs

"""Suites: the included ones, and the arenas that a file makes of one."""

import inspect
from dataclasses import dataclass, field, replace

import pytest
from fabricated import study
from tiny import TINY, write_tiny

from fairbench.arenas.registry import ARENAS, SIZED, load_arena
from fairbench.cli.choices import StudyChoice
from fairbench.cli.chosen import chosen_suite
from fairbench.cli.parser import parser
from fairbench.common.errors import UsageError
from fairbench.data.loading import load_source
from fairbench.optimizers.treatments import schedule
from fairbench.study.planned_trial import trial_spec
from fairbench.suites.compare import Compare
from fairbench.suites.loader import changed, load_suite, parse_suite, suite_names
from fairbench.suites.overrides import Overrides
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
    _, *options = inspect.signature(load_arena(name).build_model).parameters  # the first one is the data
    assert options == list(ARENAS[name].model_options)


@pytest.mark.parametrize("name", ["AdamW, clipped", "+groups", "-0.5", "β₂ = 0"])
def test_names_that_every_file_can_hold_are_taken(tiny_file, name):
    own = f'[optimizers."{name}"]\nfactory = "torch.optim:AdamW"'
    text = TINY.replace("[optimizers.AdamW]", f"[optimizers.AdamW]\n{own}")
    text = text.replace("[arenas.vit]", '[arenas."small images"]\ntask = "vit"')
    tiny_file.write_text(text)
    suite = load_suite(str(tiny_file))
    assert name in suite.optimizers
    assert "small images" in suite.arenas


def test_a_run_without_a_rung_has_no_control_ladder(tiny_file):
    top = "compare = { baselines = ['all'] }\ncontrols = ['AdamW', 'PsiLogic']\n"
    tiny_file.write_text(TINY.replace("alpha", f"{top}alpha", 1))
    words = ["run", "--suite", str(tiny_file)]
    whole = chosen_suite(StudyChoice(parser().parse_args(words)))
    narrower = parser().parse_args([*words, "--optimizers", "AdamW,Lion", "--reference", "Lion"])
    narrowed = chosen_suite(StudyChoice(narrower))
    assert whole.controls == ["AdamW", "PsiLogic"]
    assert narrowed.controls == []
    for suite in (whole, narrowed):
        assert suite.compare == Compare(baselines=["all"])
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
    assert list(found.arenas) == ["gpt", "gpt-x0.5", "gpt-x2"]
    plans = found.arenas.values()
    assert [plan.steps for plan in plans] == [100, 50, 200]
    assert [plan.sweep_steps for plan in plans] == [40, 20, 80]
    curve = [("gpt-x0.5", "AdamW"), ("gpt-x2", "AdamW")]
    assert found.arms == [("gpt", "AdamW"), ("gpt", "PsiLogic"), *curve]
    assert found.compared == [("gpt", "PsiLogic", "AdamW")]
    with_other_reference = loaded(tmp_path, "horizons = [0.5]", reference="PsiLogic")
    assert with_other_reference.arms[2:] == [("gpt-x0.5", "PsiLogic")]
    assert parse_suite(found.to_json(), "config.json") == found


def test_a_ladder_trains_every_optimizer_for_as_many_steps_as_the_model_has_parameters(tmp_path):
    found = loaded(tmp_path, bottom=LADDER)
    assert list(found.arenas) == ["gpt-32-x0.5", "gpt-32-x2", "gpt-64-x0.5", "gpt-64-x2"]
    plans = found.arenas.values()
    assert [plan.steps for plan in plans] == [50, 200, 400, 1600]
    assert [plan.sweep_steps for plan in plans] == [20, 80, 160, 640]
    assert [plan.ladder_point.parameters for plan in plans] == [24_576, 24_576, 196_608, 196_608]
    assert found.arenas["gpt-64-x2"].model == {"hidden_size": 64, "layers": 4, "heads": 4}
    assert len(found.compared) == 4
    assert found.optimizers["PsiLogic"].arenas == {name: {"eps": 1e-7} for name in found.arenas}


@dataclass
class ModelCase:
    """A small model of an arena."""

    task: str
    source: dict
    model: dict
    size: int


SMALL_GPT = ModelCase(
    task="gpt",
    source={"source": "stdlib", "context": 16, "evaluated": 8},
    model={"hidden_size": 32, "layers": 2, "heads": 2},
    size=32,
)
SMALL_VIT = ModelCase(
    task="vit",
    source={"source": "digits"},
    model={"hidden_size": 32, "layers": 2, "heads": 2, "patch_size": 4},
    size=32,
)
SMALL_RESNET = ModelCase(
    task="resnet",
    source={"source": "digits", "image_size": 32},
    model={"width": 8},
    size=8,
)


@pytest.mark.parametrize("case", [SMALL_GPT, SMALL_VIT, SMALL_RESNET], ids=lambda case: case.task)
def test_parameters_are_those_of_the_model(case, tmp_path):
    """All weights but embeddings, norms, biases and the layers that touch inputs or outputs, as Kaplan et al. count."""
    data = load_source(case.source, tmp_path)
    for size in (2 * case.size, 3 * case.size):
        options, counted = SIZED[case.task](case.model, size)
        model = load_arena(case.task).build_model(data, **options)
        inner = 0
        for name, weight in model.named_parameters():
            if weight.dim() < 2 or "wte" in name:
                continue
            if weight.shape[0] % size == 0 and weight[0].numel() % size == 0:
                inner += weight.numel()
        assert counted == inner


def test_steps_of_a_command_keep_the_proportions(tmp_path):
    def steps(top, bottom="", **changes):
        suite = loaded(tmp_path, top, bottom, **changes)
        return [plan.steps for plan in suite.arenas.values()]

    assert steps("horizons = [0.5, 2]", steps=20) == [20, 10, 40]
    assert steps("horizons = [0.5, 2]", steps=20, arenas=["gpt-x2"]) == [20]
    assert steps("", LADDER, steps=10) == [10, 40, 80, 320]


def test_what_a_command_has_changed_is_described():
    def described(suite, **changes):
        return load_suite(suite, Overrides(**changes)).description

    assert described("mini") == described("mini", arenas=["gpt", "vit", "resnet", "ddpm"])
    short = described("mini", arenas=["vit"], optimizers=["AdamW", "PsiLogic"], steps=30)
    assert short == "changed by options: 1 arena (vit), 2 optimizers (AdamW, PsiLogic), 30 steps"
    assert "steps" in described("mini", seeds=[7, 8])
    program = {"arenas.program.model.program": "python x.py"}
    assert described("program", settings=program) == "a training program of your own"


def test_an_arena_of_the_file_stands_for_its_cells(tmp_path):
    def arenas(**options):
        return list(loaded(tmp_path, **options).arenas)

    assert arenas(bottom=LADDER, arenas=["gpt"]) == arenas(bottom=LADDER)
    assert arenas(top="horizons = [2]", arenas=["gpt"]) == ["gpt", "gpt-x2"]
    assert arenas(bottom=LADDER, arenas=["gpt-32-x2"]) == ["gpt-32-x2"]


def test_schedules_and_shocks_go_with_horizons(tmp_path):
    shock = '[shock.loss]\nkind = "loss"\nat = [0.5]\n[shock.inputs]\nkind = "inputs"\nat = [0.5]'  # it has no inputs
    found = loaded(tmp_path, 'schedules = ["cosine", "linear"]\nhorizons = [2]', shock)
    undisturbed = ["gpt-cosine", "gpt-cosine-x2", "gpt-linear", "gpt-linear-x2"]
    assert list(found.arenas) == [*undisturbed, "gpt-cosine-loss", "gpt-linear-loss"]
    for name, plan in found.arenas.items():
        expected = "cosine" if name.startswith("gpt-cosine") else "linear"
        assert plan.schedule == expected
    for name in undisturbed:
        assert found.arenas[name].tuning_arena == ""
    assert found.arenas["gpt-cosine-loss"].tuning_arena == "gpt-cosine"
    assert found.arenas["gpt-linear-loss"].tuning_arena == "gpt-linear"
    points = [found.arenas[name].ladder_point for name in undisturbed]
    assert [point.reference_curve_arena for point in points] == ["", "gpt-cosine", "", "gpt-linear"]
    assert parse_suite(found.to_json(), "config.json") == found


def test_the_optimizers_schedule_comes_first_then_the_arenas_then_the_trainings():
    the_study = study(("gpt", "vit"), ("AdamW", "PsiLogic"))
    settings = {
        "training.schedule": "wsd",
        "training.min_lr": 0.1,
        "arenas.gpt.schedule": "linear",
        "optimizers.AdamW.schedule": "constant",
        "optimizers.PsiLogic.min_lr": 0.0,
    }
    suite = with_settings(the_study.suite, settings)
    assert suite.schedule("gpt", "AdamW") == ("constant", 0.1)
    assert suite.schedule("gpt", "PsiLogic") == ("linear", 0.0)
    assert suite.schedule("vit", "AdamW") == ("constant", 0.1)
    assert suite.schedule("vit", "PsiLogic") == ("wsd", 0.0)
    changed_study = replace(the_study, suite=suite)
    for arena, optimizer in suite.arms:
        training = trial_spec(changed_study, arena, optimizer, "final", lr=1e-3, seed=1).training
        assert (training.schedule, training.min_lr) == suite.schedule(arena, optimizer)


def test_a_schedule_in_words():
    assert schedule((), "cosine", 0.0) == "warm-up and cosine"
    assert schedule((), "wsd", 0.1) == "warm-up, constant, linear decay at the end to 0.1 of the peak"
    assert schedule(("constant_lr",), "linear", 0.1) == schedule((), "constant", 0.1) == "warm-up only"


@dataclass
class PairsCase:
    """The pairs of `mini` with other lists in `compare`, after the changes of a command."""

    name: str
    pairs: list[tuple[str, str]]
    compared: list[str] = field(default_factory=list)
    baselines: list[str] = field(default_factory=list)
    changes: dict = field(default_factory=dict)


ALL_WITH_THE_REFERENCE = PairsCase(
    name="all with the reference",
    pairs=[("Adam", "AdamW"), ("Lion", "AdamW"), ("PsiLogic", "AdamW")],
)
ONE_WITH_ALL = PairsCase(
    name="one with all",
    compared=["PsiLogic"],
    baselines=["all"],
    pairs=[("PsiLogic", "AdamW"), ("PsiLogic", "Adam"), ("PsiLogic", "Lion")],
)
ONE_WITH_ONE = PairsCase(
    name="one with one",
    compared=["PsiLogic"],
    baselines=["Lion"],
    pairs=[("PsiLogic", "Lion")],
)
NO_PAIR_TWICE = PairsCase(
    name="no pair twice",
    compared=["Lion", "AdamW"],
    baselines=["AdamW", "Lion"],
    pairs=[("Lion", "AdamW")],
)
EVERY_PAIR_OF_THOSE_THAT_ARE_LEFT = PairsCase(
    name="every pair of those that are left",
    baselines=["all"],
    changes={"optimizers": ["Lion", "Adam", "AdamW"]},
    pairs=[("Lion", "AdamW"), ("Adam", "AdamW"), ("Adam", "Lion")],
)
EVERY_PAIR_WITH_ANOTHER_REFERENCE = PairsCase(
    name="every pair with another reference",
    baselines=["all"],
    changes={"optimizers": ["AdamW", "Lion"], "reference": "Lion"},
    pairs=[("AdamW", "Lion")],
)
THE_COMPARED_ONE_IS_GONE = PairsCase(
    name="the compared one is gone",
    compared=["PsiLogic"],
    baselines=["all"],
    changes={"optimizers": ["AdamW", "Lion"]},
    pairs=[("Lion", "AdamW")],
)
A_BASELINE_IS_GONE = PairsCase(
    name="a baseline is gone",
    baselines=["Lion", "Adam"],
    changes={"optimizers": ["AdamW", "Lion"]},
    pairs=[("AdamW", "Lion")],
)
ANOTHER_REFERENCE = PairsCase(
    name="another reference",
    compared=["PsiLogic"],
    baselines=["all"],
    changes={"reference": "Lion"},
    pairs=[("Adam", "Lion"), ("AdamW", "Lion"), ("PsiLogic", "Lion")],
)
AN_ADDED_ONE_IS_COMPARED = PairsCase(
    name="an added one is compared",
    compared=["PsiLogic"],
    baselines=["all"],
    changes={"optimizers": ["AdamW", "Lion"], "added": ["Muon"]},
    pairs=[("Muon", "AdamW"), ("Muon", "Lion")],
)
PAIRS_CASES = [
    ALL_WITH_THE_REFERENCE,
    ONE_WITH_ALL,
    ONE_WITH_ONE,
    NO_PAIR_TWICE,
    EVERY_PAIR_OF_THOSE_THAT_ARE_LEFT,
    EVERY_PAIR_WITH_ANOTHER_REFERENCE,
    THE_COMPARED_ONE_IS_GONE,
    A_BASELINE_IS_GONE,
    ANOTHER_REFERENCE,
    AN_ADDED_ONE_IS_COMPARED,
]


@pytest.mark.parametrize("case", PAIRS_CASES, ids=lambda case: case.name)
def test_the_pairs_of_a_suite_and_of_what_a_command_leaves_of_it(case):
    settings = {"compare.optimizers": case.compared, "compare.baselines": case.baselines}
    suite = changed(load_suite("mini"), Overrides(settings=settings))
    assert changed(suite, Overrides(**case.changes)).pairs == case.pairs

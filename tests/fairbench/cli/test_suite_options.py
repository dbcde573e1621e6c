"""The suite of a command line."""

import ast
from dataclasses import replace

import pytest

from fairbench.cli.choices import StudyChoice
from fairbench.cli.chosen import chosen_suite
from fairbench.cli.parser import parser
from fairbench.common.errors import UsageError
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.checks import check_suite
from fairbench.suites.lengths import with_seeds, with_steps
from fairbench.suites.loader import load_suite, suite_names
from fairbench.suites.overrides import Overrides
from fairbench.suites.search import Search
from fairbench.suites.stages import Final


def chosen(*words):
    return suite_of("mini", *words)


def suite_of(*words):
    return chosen_suite(StudyChoice(parser().parse_args(["run", *words])))


@pytest.fixture
def own_files(tmp_path, monkeypatch):
    """The files of a user's optimizers, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("mine.py", "rules/mine.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()


def test_an_added_optimizer_does_not_change_the_suite(own_files):
    mini = load_suite("mini")
    suite = chosen("--add-optimizer", "rules/mine.py:Mine", "--add-optimizer", "pkg.mod:Other")
    added = {"Mine": OptimizerPlan("rules/mine.py:Mine"), "Other": OptimizerPlan("pkg.mod:Other")}
    assert list(suite.optimizers.items()) == [*mini.optimizers.items(), *added.items()]
    assert suite.reference == mini.reference
    assert suite.arenas == mini.arenas


def test_selected_optimizers_and_an_added_one(own_files):
    suite = chosen("--optimizers", "AdamW", "--add-optimizer", "mine.py:Mine", "--reference", "Mine")
    assert list(suite.optimizers) == ["AdamW", "Mine"]
    assert suite.reference == "Mine"


def test_hyperparameters_are_added_to_those_of_the_suite(own_files):
    words = ["--add-optimizer", "mine.py:Mine", "--set", "Mine.betas = [0.9, 0.95]", "--set", "PsiLogic.gamma=0.5"]
    suite = chosen(*words, "--set", 'Mine.mode="fast"', "--set", "AdamW.amsgrad=true")
    assert suite.optimizers["Mine"].options == {"betas": [0.9, 0.95], "mode": "fast"}
    assert suite.optimizers["PsiLogic"].options == {"weight_decay": 0.01, "chaos_warmup": 0.05, "gamma": 0.5}
    assert suite.optimizers["AdamW"].options == {"weight_decay": 0.01, "fused": True, "amsgrad": True}


def test_any_key_of_a_suite_file_can_be_set():
    settings = [
        "training.clip_norm=0",
        "arenas.vit.steps=100",
        "arenas.vit.margin=0.5",
        "arenas.gpt.model.layers=3",
        "sweep.seeds=[7]",
        "optimizers.Lion.lr=0.001",
        "PsiLogic.gamma=2",
        'reference="Lion"',
        "optimizers.AdamW.arenas.gpt.eps=1e-6",
    ]
    mini = load_suite("mini")
    words = [f"--set={setting}" for setting in settings]
    suite = chosen(*words)
    assert suite.training.clip_norm == 0.0
    assert suite.sweep.seeds == [7]
    assert suite.reference == "Lion"
    assert suite.arenas["vit"] == replace(mini.arenas["vit"], steps=100, margin=0.5)
    gpt = mini.arenas["gpt"]
    assert suite.arenas["gpt"] == replace(gpt, model={**gpt.model, "layers": 3})
    assert suite.optimizers["Lion"] == replace(mini.optimizers["Lion"], lr=0.001)
    assert suite.optimizers["AdamW"].arenas == {"gpt": {"eps": 1e-6}}
    assert suite.optimizers["PsiLogic"].options["gamma"] == 2


def test_a_name_with_dots_can_be_set(tiny_file):
    text = tiny_file.read_text().replace("[arenas.vit]", '[arenas."vit.v1.5"]\ntask = "vit"')
    tiny_file.write_text(f'{text}\n[optimizers."AdamW 2.0"]\nfactory = "torch.optim:AdamW"\n')
    words = ["--set", "arenas.vit.v1.5.steps=50", "--set", "AdamW 2.0.eps=0.5"]
    suite = suite_of(str(tiny_file), *words)
    assert suite.arenas["vit.v1.5"].steps == 50
    assert suite.optimizers["AdamW 2.0"].options["eps"] == 0.5


def test_more_seeds_begin_with_those_of_the_suite():
    mini = load_suite("mini")
    assert chosen("--seeds", "10").final.seeds == [*mini.final.seeds, 9, 10]
    assert chosen("--seeds", "2").final.seeds == mini.final.seeds[:2]
    assert chosen("--seeds", "30,40").final.seeds == [30, 40]
    assert chosen("--seeds", "9,").final.seeds == [9]


def test_the_search_keeps_its_seeds_and_an_error_in_them_names_their_line(tiny_file):
    mini = load_suite("mini")
    assert chosen("--seeds", "0,1").sweep.seeds == mini.sweep.seeds == [0]
    tiny_file.write_text(tiny_file.read_text().replace("seeds = [0]", "seeds = [-1]"))
    with pytest.raises(UsageError, match=r"tiny\.toml, line \d+: sweep\.seeds: must be distinct whole numbers"):
        suite_of(str(tiny_file), "--seeds", "4")


def test_interim_analyses_follow_the_seeds():
    final = Final(seeds=[1, 2, 3, 4, 5, 6], evaluations=6, interim_analyses=[2, 4, 6])
    suite = replace(load_suite("mini"), final=final)
    assert with_seeds(suite, 8).final == replace(final, seeds=[1, 2, 3, 4, 5, 6, 7, 8], interim_analyses=[2, 4, 6, 8])
    assert with_seeds(suite, 4).final == replace(final, seeds=[1, 2, 3, 4], interim_analyses=[2, 4])
    assert with_seeds(suite, 2).final == replace(final, seeds=[1, 2], interim_analyses=[])


def shortest_of_ladder(suite, arena):
    """The steps of the shortest final trials on the ladder of an arena; without a ladder, those of the arena."""
    plan = suite.arenas[arena]
    if not plan.ladder_point or not plan.ladder_point.size:
        return plan.steps
    family = plan.ladder_point.family
    steps = []
    for other in suite.arenas.values():
        if other.ladder_point and other.ladder_point.family == family:
            steps.append(other.steps)
    return min(steps)


@pytest.mark.parametrize("name", suite_names())
@pytest.mark.parametrize("steps", [40, 5000])
def test_other_lengths_keep_their_shares_of_the_steps(name, steps):
    before = load_suite(name)
    suite = with_steps(before, steps)
    check_suite(suite)
    for arena, plan in suite.arenas.items():
        plan_before = before.arenas[arena]
        assert plan.steps == round(steps * plan_before.steps / shortest_of_ladder(before, arena))
        share = plan_before.sweep_steps / plan_before.steps
        assert abs(plan.sweep_steps - share * plan.steps) <= 1
    shortest = min(plan.sweep_steps for plan in suite.arenas.values())
    shortest_before = min(plan.sweep_steps for plan in before.arenas.values())
    share = suite.training.warmup_steps / shortest
    share_before = before.training.warmup_steps / shortest_before
    assert abs(share - share_before) <= 1 / shortest
    if steps == 40:
        overrides = Overrides(steps=40, settings={"training.log_every": 1})
        assert load_suite(name, overrides).training.log_every == 1


def test_the_grid_of_learning_rates():
    sweep = chosen("--lr-grid", "1e-4:1e-1:7").sweep
    rates = [setting.lr for setting in Search(sweep).first()]
    assert rates[::2] == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1])


def test_hyperparameters_are_checked_against_the_signature(check_errors):
    def resolve(case):
        resolve_optimizer("AdamW", OptimizerPlan(options=ast.literal_eval(f"{{{case}}}")))

    check_errors("hyperparameters.txt", resolve, UsageError)


def test_a_default_of_none_takes_any_value_and_an_integer_is_a_number():
    resolved = resolve_optimizer("AdamW", OptimizerPlan(options={"fused": True, "weight_decay": 1}))
    assert resolved.options["fused"] is True
    assert resolved.options["weight_decay"] == 1


@pytest.mark.parametrize(
    ("metric", "by_name"), [("accuracy:min", "higher"), ("val/loss:max", "lower"), ("bpb:min", "")]
)
def test_a_direction_against_the_name_of_the_metric_is_said(metric, by_name, capsys):
    program = ["--program", "true", "--margin", "1", "--variant", "a", "--variant", "b: -x"]
    suite_of(*program, "--metric", metric)
    said = capsys.readouterr().err
    assert bool(said) == bool(by_name)
    assert said.rstrip().endswith(by_name)

"""The suite of a command line."""

import pytest

from fairbench.cli.parser import parser
from fairbench.cli.suite_options import chosen_suite
from fairbench.common.errors import UsageError
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.loader import load_suite
from fairbench.suites.schema import Suite
from fairbench.suites.search import Grid


def chosen(*words: str) -> Suite:
    return chosen_suite(parser().parse_args(["run", "mini", *words]))


def test_an_added_optimizer_does_not_change_the_suite() -> None:
    mini, suite = (
        load_suite("mini"),
        chosen("--add-optimizer", "rules/mine.py:Mine", "--add-optimizer", "pkg.mod:Other"),
    )
    added = {"Mine": OptimizerPlan("rules/mine.py:Mine"), "Other": OptimizerPlan("pkg.mod:Other")}
    assert list(suite.optimizers.items()) == [*mini.optimizers.items(), *added.items()]
    assert (suite.reference, suite.arenas) == (mini.reference, mini.arenas)


def test_selected_optimizers_and_an_added_one() -> None:
    suite = chosen("--only-optimizers", "AdamW", "--add-optimizer", "mine.py:Mine", "--reference", "Mine")
    assert (list(suite.optimizers), suite.reference) == (["AdamW", "Mine"], "Mine")


def test_hyperparameters_are_added_to_those_of_the_suite() -> None:
    words = ["--add-optimizer", "mine.py:Mine", "--set", "Mine.betas = [0.9, 0.95]", "--set", "PsiLogic.gamma=0.5"]
    suite = chosen(*words, "--set", 'Mine.mode="fast"', "--set", "AdamW.amsgrad=true")
    assert suite.optimizers["Mine"].options == {"betas": [0.9, 0.95], "mode": "fast"}
    assert suite.optimizers["PsiLogic"].options == {"weight_decay": 0.01, "chaos_warmup": 20, "gamma": 0.5}
    assert suite.optimizers["AdamW"].options == {"weight_decay": 0.01, "amsgrad": True}


def test_the_grid_of_learning_rates() -> None:
    sweep = chosen("--lr-grid", "1e-4:1e-1:7").sweep
    assert [setting.lr for setting in Grid(sweep).first()][::2] == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--lr-grid", "1e-4:1e-1"], "--lr-grid must have the form lowest:highest:points with 0 < lowest < highest"),
        (["--lr-grid", "1e-4:1e-1:7.5"], "--lr-grid must have the form"),
        (["--lr-grid", "1e-1:1e-4:7"], "and 2 to 100 points, as 1e-4:1e-1:7; got '1e-1:1e-4:7'"),
        (["--lr-grid", "0:1:7"], "--lr-grid must have the form"),
        (["--lr-grid", "1e-4:1:1"], "--lr-grid must have the form"),
        (["--lr-grid", "1e-4:1:0"], "--lr-grid must have the form"),
        (["--only-optimizers", ""], "--only-optimizers names nothing; leave it out"),
        (["--arenas", " , "], "--arenas names nothing; leave it out"),
        (["--add-optimizer", "my_rule.py"], "optimizer 'my_rule.py' names a file; name its class too"),
        (["--set", "weight_decay=0.1"], "--set must have the form key=value, as AdamW.weight_decay=0.1"),
        (["--set", "AdamW.eps"], "--set must have the form key=value"),
        (["--set", "adamw.eps=1"], "unknown optimizer or table of a suite 'adamw'; did you mean 'AdamW'?"),
        (
            ["--set", "AdamW.mode=fast"],
            """'fast' is no TOML value; text needs quotes, as --set 'AdamW.mode="fast"'""",
        ),
        (
            ["--set", "AdamW.lr=0.1"],
            "setting AdamW.lr: optimizers.AdamW.options.lr: is selected by the sweep; leave it out, or fix the rate outside",
        ),
        (["--add-optimizer", "AdamW"], "two optimizers are called 'AdamW'"),
        (["--add-optimizer", "adam"], "unknown optimizer 'adam'; did you mean 'Adam'?"),
    ],
)
def test_wrong_options_are_named(words: list[str], complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        chosen(*words)
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("weight_decya", 0.1, "unknown hyperparameter of AdamW 'weight_decya'; did you mean 'weight_decay'?"),
        ("weight_decay", "0.1", "weight_decay must be a number, as its default 0.01 is; got '0.1'"),
        ("eps", True, "optimizers.AdamW.options.eps must be a number, as its default 1e-08 is; got True"),
        ("amsgrad", 1, "optimizers.AdamW.options.amsgrad must be true or false, as its default False is; got 1"),
        ("betas", 0.9, "optimizers.AdamW.options.betas must be a list, as its default (0.9, 0.999) is; got 0.9"),
        ("eps", float("inf"), "optimizers.AdamW.options.eps must be a finite plain value, got inf"),
    ],
)
def test_hyperparameters_are_checked_against_the_signature(option: str, value: object, complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        resolve_optimizer("AdamW", OptimizerPlan(options={option: value}))
    assert complaint in str(error.value)


def test_a_default_of_none_takes_any_value_and_an_integer_is_a_number() -> None:
    resolved = resolve_optimizer("AdamW", OptimizerPlan(options={"fused": True, "weight_decay": 1}))
    assert (resolved.options["fused"], resolved.options["weight_decay"]) == (True, 1)

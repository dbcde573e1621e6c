"""Suites: mistakes in a file are named with their key and line."""

import inspect
from pathlib import Path

import pytest

from fairbench.arenas.registry import ARENAS, load_arena
from fairbench.cli.parser import parser
from fairbench.cli.suite_options import chosen_suite
from fairbench.common.errors import UsageError
from fairbench.suites.loader import load_suite, parse_suite, suite_names


@pytest.mark.parametrize("name", suite_names())
def test_the_included_suites_are_valid_and_survive_json(name: str) -> None:
    suite = load_suite(name)
    assert parse_suite(suite.to_json(), "json") == suite


def test_mini_gives_every_optimizer_the_same_treatment() -> None:
    suite = load_suite("mini")
    assert list(suite.arenas) == ["gpt", "vit", "resnet", "ddpm"]
    assert list(suite.optimizers) == ["Adam", "AdamW", "Lion", "PsiLogic"]
    assert len(suite.final.seeds) == 5
    assert not set(suite.final.seeds) & set(suite.sweep.seeds)
    for option in ("grad_centralize", "agc_clip"):
        assert option not in suite.optimizers["PsiLogic"].options


@pytest.mark.xdist_group("loader")
@pytest.mark.parametrize("name", ARENAS)
def test_the_declared_options_are_the_arenas_arguments(name: str) -> None:
    arena, facts = load_arena(name), ARENAS[name]
    assert list(inspect.signature(arena.build_model).parameters)[1:] == list(facts.model_options)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("lr_max = 1e-2", "lr_mx = 1e-2", "line 8: sweep.lr_mx: unknown key 'lr_mx'; did you mean 'lr_max'"),
        ("lr_max = 1e-2", "lr_max = 1e-4", "line 8: sweep.lr_max: must be above lr_min = 0.001, got 0.0001"),
        ("lr_max = 1e-2", 'lr_max = "high"', "line 8: sweep.lr_max: must be a number, got 'high'"),
        ("points = 2", "points = 2.5", "line 9: sweep.points: must be a whole number, got 2.5"),
        ("seeds = [1, 2]", "seeds = [0, 2]", r"line 15: final.seeds: must not be those of the sweep, both have \[0\]"),
        ("points = 2", "points = 2\nrepeated = true", "sweep.seeds: must be as many as final.seeds, .* got 1 for 2"),
        ("seeds = [1, 2]", "seeds = [1, 1]", "line 15: final.seeds: must be distinct"),
        ("seeds = [1, 2]", "", "line 14: final.seeds: is missing"),
        ("clip_norm = 1.0", "clip_norm = nan", "line 19: training.clip_norm: must lie in \\[0, 1000000000\\], got nan"),
        ('metric = "accuracy"', 'metric = "acuracy"', "line 24: .*unknown metric 'acuracy'; did you mean 'accuracy'"),
        ("[arenas.vit]", "[arenas.vti]", "line 23: arenas.vti: unknown arena 'vti'; did you mean 'vit'"),
        ("[optimizers.AdamW]", "[optimizers.AdmW]", "line 32: .*unknown optimizer 'AdmW'; did you mean 'AdamW'"),
        ("weight_decay = 0.01 }", "lr = 0.1 }", "line 33: optimizers.AdamW.options.lr: is selected by the sweep"),
        ('reference = "PsiLogic"', 'reference = "PsiLogik"', "line 3: reference: .*did you mean 'PsiLogic'"),
        ("lr_max = 1e-2", "lr_max = inf", "line 8: sweep.lr_max: must be positive and finite, got inf"),
        ("lr_max = 1e-2", "lr_max = 1.0000001e-3", "line 9: sweep.points: gives rates that are not distinct"),
        ("points = 2", "points = 100000000", "line 9: sweep.points: must lie in"),
        ("seeds = [1, 2]", f"seeds = [{10**26}]", "line 15: final.seeds: must be distinct whole numbers in"),
        ("hidden_size = 8", "hidden = 8", "line 30: arenas.vit.model.hidden: unknown key .*did you mean 'hidden_size'"),
        ("hidden_size = 8", "hidden_size = 0", "line 30: arenas.vit.model.hidden_size: must be at least 1, got 0"),
        ("heads = 1, ", "", "line 30: arenas.vit.model.heads: is missing"),
        ("description", "name = '../evil'\ndescription", "tiny.toml: name = '../evil': a suite is named by its"),
        ("warmup_steps = 2", "warmup_steps = 10", "training.warmup_steps: must be at most 9, since the shortest"),
        ("log_every = 5", "log_every = 11", "training.log_every: must be at most 10, since the shortest trials"),
        ("sweep_steps = 10", "sweep_steps = 10000000000", "arenas.vit.sweep_steps: must lie in"),
        ("[optimizers.AdamW]", '[optimizers."Adam\\nW"]', "must be printable and not blank"),
        ("[optimizers.AdamW]", '[optimizers." AdamW"]', "optimizers. AdamW: .* without spaces at its ends"),
        ("[optimizers.AdamW]", '[optimizers."=1+1"]', "line 32: .*must not begin with '=' or '@', .*; rename '=1"),
        (
            "[arenas.vit]",
            '[arenas."@vit"]\ntask = "vit"',
            "line 23: arenas.@vit: must be made of letters, digits, spaces",
        ),
        (
            "[arenas.vit]",
            '[arenas."vit "]\ntask = "vit"',
            "arenas.vit : .* without spaces at its ends or in a row",
        ),
        (
            "[arenas.vit]",
            '[arenas."all arenas"]\ntask = "vit"',
            "line 23: .*must not be 'all arenas', which stands for all of them",
        ),
        *(
            ("[optimizers.AdamW]", f'[optimizers."{name}"]', "must not be a word that programs read as a missing value")
            for name in ("NA", "null", "NaN", "None", "n/a", "<NA>")
        ),
        (
            "[arenas.vit]",
            '[arenas.null]\ntask = "vit"',
            "line 23: .*must not be a word that programs read as a missing value",
        ),
        ("alpha = 0.05", "alpha = 0.05\ntrial_timeout = -1.0", "trial_timeout: must be a number of seconds"),
        ("alpha = 0.05", "alpha = 0.05\ncheckpoint_every = -1.0", "checkpoint_every: must be a number of seconds"),
        (
            "alpha = 0.05",
            "alpha = 0.05\ncompare = 'al'",
            "line 5: compare: unknown comparison 'al'; did you mean 'all'",
        ),
        ("alpha = 0.05", "alpha = 0.05\ncontrols = ['AdmW', 'PsiLogic']", "line 5: controls: .*did you mean 'AdamW'"),
        ("alpha = 0.05", "alpha = 0.05\ncontrols = ['AdamW']", r"controls: must have two or more .*got \['AdamW'\]"),
        ("steps = 40", "steps = 2", r"vit.steps: must lie in \[3, .*\] \(3 are taken before any trial\), got 2"),
        ("margin = 0.02", "margin = 0", "arenas.vit.margin: must be positive and finite, got 0.0"),
        ("margin = 0.02", "margin = inf", "arenas.vit.margin: must be positive and finite, got inf"),
        ("alpha = 0.05", "alpha = 5", "line 4: alpha: must be below 1, got 5.0"),
        ("alpha = 0.05", "alpha = = 5", "tiny.toml, line 4: Invalid value; correct the TOML"),
        (
            "[training]",
            "[trainign]\nclip_norm = 1\n[training]",
            "line 18: trainign: unknown key .*did you mean .training",
        ),
        (
            "[training]",
            "[optimizer.AdamW]\nlr = 1\n[training]",
            "line 18: optimizer: unknown key .*did you mean .optimizers",
        ),
    ],
)
def test_mistakes_are_named_with_key_and_line(tiny_file: Path, old: str, new: str, complaint: str) -> None:
    text = tiny_file.read_text()
    assert old in text
    tiny_file.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError, match=complaint) as caught:
        load_suite(str(tiny_file))
    assert "tiny.toml" in str(caught.value)


@pytest.mark.parametrize("name", ["AdamW, clipped", "+groups", "-0.5", "β₂ = 0"])
def test_names_that_every_file_can_hold_are_taken(tiny_file: Path, name: str) -> None:
    text = tiny_file.read_text().replace("[optimizers.AdamW]", f'[optimizers."{name}"]\nfactory = "torch.optim:AdamW"')
    tiny_file.write_text(
        text.replace("[arenas.vit]", '[arenas."small images"]\ntask = "vit"', 1).replace(
            "arenas.vit", 'arenas."small images"'
        )
    )
    suite = load_suite(str(tiny_file))
    assert name in suite.optimizers
    assert "small images" in suite.arenas


def test_optional_keys_of_a_suite(tiny_file: Path) -> None:
    changed = tiny_file.read_text().replace(
        "alpha = 0.05", "alpha = 0.05\ncompare = 'all'\ncontrols = ['AdamW', 'PsiLogic']"
    )
    tiny_file.write_text(changed)
    suite = load_suite(str(tiny_file))
    assert (suite.compare, suite.controls) == ("all", ["AdamW", "PsiLogic"])
    assert parse_suite(suite.to_json(), "json") == suite


def test_a_run_without_a_rung_has_no_control_ladder(tiny_file: Path) -> None:
    tiny_file.write_text(
        tiny_file.read_text().replace("alpha = 0.05", "alpha = 0.05\ncontrols = ['AdamW', 'PsiLogic']")
    )
    for more, controls in ([], ["AdamW", "PsiLogic"]), (["--only-optimizers", "AdamW,Lion", "--reference", "Lion"], []):
        suite = chosen_suite(parser().parse_args(["run", "--suite", str(tiny_file), *more]))
        assert suite.controls == controls
        assert parse_suite(suite.to_json(), "json") == suite


def test_a_wrong_name_or_file_is_named() -> None:
    with pytest.raises(UsageError, match="unknown suite 'mnii'; did you mean 'mini'"):
        load_suite("mnii")
    with pytest.raises(UsageError, match=r"no suite file 'absent\.toml'"):
        load_suite("absent.toml")


def test_the_name_of_an_included_suite_is_taken(tiny_file: Path) -> None:
    other = tiny_file.rename(tiny_file.with_name("mini.toml"))
    with pytest.raises(UsageError, match="fairbench includes a suite of that name; rename the file"):
        load_suite(str(other))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00"])
def test_a_file_without_text_is_named(tiny_file: Path, content: bytes) -> None:
    suite = load_suite(str(tiny_file))
    tiny_file.write_bytes(b"\xef\xbb\xbf" + tiny_file.read_bytes())  # a byte order mark is ignored
    assert load_suite(str(tiny_file)) == suite
    tiny_file.write_bytes(content)
    with pytest.raises(UsageError, match=r"tiny\.toml(, line 1: | cannot be read: )"):
        load_suite(str(tiny_file))

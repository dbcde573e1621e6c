"""What is said of the command of a program before the program is started."""

import sys
from pathlib import Path

import pytest

from fairbench.common.errors import ProgramError
from fairbench.runner.trainings.before_start import checked_programs, seed_message, without_seed
from fairbench.runner.trainings.order_of_checks import expected_time, order_of_checks
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.variants import parsed_variants
from fairbench.training.device_slot import DeviceSlot


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a program, and another folder without one."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print(1)")
    Path("other").mkdir()
    return tmp_path


def suite_of(program, *variants, **settings):
    """A suite for a program with some variants."""
    given = {"arenas.program.model.program": program}
    for key, value in settings.items():
        given[f"arenas.program.model.{key}"] = value
    plans = parsed_variants(variants or ("base", "more: --more"), program)
    return load_suite("program", Overrides(settings=given, variants=plans))


@pytest.mark.parametrize(
    ("program", "variants", "named"),
    [
        ("python /no/such/train.py", (), "variant base names /no/such/train.py"),
        ("LEVEL=1 python -u tain.py --seed 1", (), "variant base names tain.py"),
        ("torchrun --standalone tain.py", (), "variant base names tain.py"),
        (f"{sys.executable} train.py", ("base", "there: @./other"), "variant there names train.py"),
        ("python {variant}", ("base: train.py", "new: trian.py"), "variant new names trian.py"),
    ],
)
def test_a_script_that_does_not_exist_is_named_with_its_folder(folder, program, variants, named):
    with pytest.raises(ProgramError, match=f"{named}, and there is no such file in {folder}"):
        checked_programs(suite_of(program, *variants), DeviceSlot())


@pytest.mark.parametrize(
    "program",
    [
        "python train.py --model no.py",
        "python train no.py",
        "python -W ignore no.py",
        "python -m tain.py",
        "env -C elsewhere python tain.py",
        "bash -c 'cd elsewhere && python tain.py'",
        "docker run image python tain.py",
        "python {out}/tain.py",
    ],
)
def test_a_script_that_may_be_elsewhere_is_not_missing(folder, program):
    checked_programs(suite_of(program), DeviceSlot())


@pytest.mark.parametrize(
    ("program", "variants", "settings", "code", "lost"),
    [
        ("python train.py", (), {}, "print(1)", "program: its command has no {seed}"),
        ("python train.py", ("a: S={seed}", "b:", "c: --c"), {}, "print(1)", "program of variant b, c: its command"),
        ("python train.py --seed {seed}", (), {}, "print(1)", ""),
        ("python train.py", ("base: S={seed}", "more: S={seed} --more"), {}, "print(1)", ""),
        ("python train.py", (), {"seed_env": "SEED"}, "print(1)", ""),
        ("python train.py", (), {"seeded": False}, "print(1)", ""),
        ("python train.py", (), {}, "from fairbench.trial import current", ""),
        ("./train", (), {}, "print(1)", ""),
    ],
)
def test_a_seed_that_cannot_reach_the_program_is_said(folder, program, variants, settings, code, lost):
    Path("train.py").write_text(code)
    if program == "./train":
        Path("train.py").rename("train")
    programs = checked_programs(suite_of(program, *variants, **settings), DeviceSlot())
    without = without_seed(programs)
    assert bool(without) == bool(lost)
    if lost:
        assert seed_message(without, programs).startswith(f"the seed does not reach the {lost}")


def test_the_first_check_begins_with_the_last_variant_and_the_reference_is_the_last():
    variants = parsed_variants(["base", "a: --a", "b: --b"], "python train.py")
    suite = load_suite("program", Overrides(variants=variants))
    assert order_of_checks(suite) == ["b", "a", "base"]
    suite = load_suite("program", Overrides(variants=variants, reference="a"))
    assert order_of_checks(suite) == ["b", "base", "a"]
    assert order_of_checks(load_suite("program")) == ["AdamW", "PsiLogic"]


@pytest.mark.parametrize(
    ("name", "seconds", "text"),
    [("b", 0, ""), ("a", 30, ", about 0:30"), ("base", 30, ", about 1:30"), ("base", 50, ", about 0:50")],
)
def test_the_time_of_a_first_check_is_that_of_the_one_before_it(name, seconds, text):
    variants = parsed_variants(["base", "a: --a", "b: --b"], "python train.py")
    assert expected_time(load_suite("program", Overrides(variants=variants)), name, seconds) == text

"""The schedule of an arm: the optimizer's, then the arena's, then the suite's; as a factor, and mistakes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fabricated import study
from tiny import TINY, write_tiny

from fairbench.common.errors import UsageError
from fairbench.optimizers.resolve import schedule
from fairbench.study.plan import trial_spec
from fairbench.suites.loader import load_suite, parse_suite
from fairbench.suites.settings import with_settings
from fairbench.suites.training import schedule_of


def test_the_optimizers_schedule_comes_first_then_the_arenas_then_the_trainings() -> None:
    the_study = study(("gpt", "vit"), ("AdamW", "PsiLogic"))
    settings: dict[str, Any] = {
        "training.schedule": "wsd",
        "training.min_lr": 0.1,
        "arenas.gpt.schedule": "linear",
        "optimizers.AdamW.schedule": "constant",
        "optimizers.PsiLogic.min_lr": 0.0,
    }
    suite = with_settings(the_study.suite, settings)
    found = {(arena, name): schedule_of(suite, arena, name) for arena in suite.arenas for name in suite.optimizers}
    assert found == {
        ("gpt", "AdamW"): ("constant", 0.1),
        ("gpt", "PsiLogic"): ("linear", 0.0),
        ("vit", "AdamW"): ("constant", 0.1),
        ("vit", "PsiLogic"): ("wsd", 0.0),
    }
    for (arena, name), expected in found.items():
        training = trial_spec(replace(the_study, suite=suite), arena, name, "final", 1e-3, 1).training
        assert (training.schedule, training.min_lr) == expected


def test_a_schedule_in_words() -> None:
    assert schedule((), "cosine", 0.0) == "warm-up and cosine"
    assert schedule((), "wsd", 0.1) == "warm-up, constant, linear decay at the end to 0.1 of the peak"
    assert schedule(("constant_lr",), "linear", 0.1) == schedule((), "constant", 0.1) == "warm-up only"


def test_schedules_as_a_factor(tmp_path: Path) -> None:
    file = write_tiny(tmp_path, TINY.replace("alpha = 0.05", 'alpha = 0.05\nschedules = ["cosine", "wsd"]'))
    suite = load_suite(str(file))
    assert {name: plan.schedule for name, plan in suite.arenas.items()} == {"vit-cosine": "cosine", "vit-wsd": "wsd"}
    assert parse_suite(suite.to_json(), "json") == suite


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            "log_every",
            'schedule = "cosin"\nlog_every',
            "training.schedule: unknown schedule 'cosin'; did .*wsd",
        ),
        ("log_every", "min_lr = 1.0\nlog_every", r"training.min_lr: must be a share of the peak in \[0, 1\), got 1.0"),
        ("log_every", "min_lr = nan\nlog_every", "training.min_lr: must be a share of the peak"),
        ("margin", 'schedule = "step"\nmargin', "vit.schedule: unknown schedule 'step' .known: constant, cosine, lin"),
        ("[optimizers.AdamW]", '[optimizers.AdamW]\nschedule = ""', "optimizers.AdamW.schedule: unknown schedule ''"),
        ("[optimizers.AdamW]", "[optimizers.AdamW]\nmin_lr = -0.1", "optimizers.AdamW.min_lr: must be a share"),
        (
            "alpha",
            'schedules = ["cosine", "wds"]\nalpha',
            "line 4: schedules: unknown schedule 'wds'; did you mean",
        ),
        ("alpha", 'schedules = ["wsd", "wsd"]\nalpha', "schedules: must each be there once"),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        load_suite(str(write_tiny(tmp_path, TINY.replace(old, new, 1))))


def test_an_optimizers_own_schedule_does_not_go_with_the_factor(tmp_path: Path) -> None:
    own = TINY.replace("[optimizers.AdamW]", '[optimizers.AdamW]\nschedule = "linear"')
    assert load_suite(str(write_tiny(tmp_path, own))).optimizers["AdamW"].schedule == "linear"
    both = own.replace("alpha = 0.05", 'alpha = 0.05\nschedules = ["cosine", "wsd"]')
    complaint = r"optimizers.AdamW.schedule: .* each of its schedules \(cosine, wsd\); leave one of the two out"
    with pytest.raises(UsageError, match=complaint):
        load_suite(str(write_tiny(tmp_path, both)))

"""A user's optimizer: its template and its checks, and a preview, which shows what the sweep of a study would."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tiny import study_of

from fairbench.api.preview import preview, rates, run_preview
from fairbench.api.previewed import Previewed, PreviewRow
from fairbench.contract.checks import CONTRACT_CHECKS
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.study.planned_trial import trial_spec
from fairbench.suites.loader import load_suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trial import trial

pytestmark = pytest.mark.xdist_group("user_optimizer")
PAGE = (Path(__file__).parents[3] / "docs/bring-your-own-optimizer.md").read_text()


def test_every_check_has_a_row():
    rows = re.findall(r"^\| ([a-z0-9_ ]+) \|", PAGE.partition("| check |")[2], re.MULTILINE)
    assert rows == [check.name for check in CONTRACT_CHECKS]


def test_a_preview_trains_like_a_sweep_and_has_no_number_for_a_lost_trial(tiny_folder):
    suite = replace(load_suite("tiny.toml"), optimizers={"AdamW": OptimizerPlan()}, reference="AdamW")
    ((_, record),) = run_preview(suite, [1e-2], [DeviceSlot()])
    spec = trial_spec(study_of(suite), "vit", "AdamW", "sweep", 1e-2, suite.sweep.seeds[0])
    assert spec.id == record.id
    assert spec.training.steps == 10
    assert trial(spec).result == record.result

    others = ["AdamW", "own_optimizers:Explodes"]
    rows = preview("own_optimizers:Raises", baselines=others, suite="tiny.toml", lr=[1e-3, 1e-2])
    assert [row.status for row in rows] == ["finished", "finished", "diverged", "diverged", "finished", "failed"]
    for row in rows:
        assert (row.value is None) == (row.status != "finished")
    assert rows.seconds["Explodes"] is None
    assert rows[-1].error.endswith(": this optimizer cannot continue")
    assert not rows.ok


STOPPED = """
import os, pathlib, signal
import torch

class Stopped(torch.optim.AdamW):
    steps = 0
    def step(self, closure=None):
        self.steps += 1
        if self.steps == 18 and not pathlib.Path("stopped").exists():
            pathlib.Path("stopped").touch()
            os.kill(os.getpid(), signal.SIGTERM)
        return super().step(closure)
"""


def test_a_trial_of_a_preview_that_something_else_stops_is_trained_again(tiny_folder):
    (tiny_folder / "stopped.py").write_text(STOPPED)
    plans = {"AdamW": OptimizerPlan(), "Stopped": OptimizerPlan("stopped.py:Stopped")}
    tiny = load_suite("tiny.toml")
    longer = {"vit": replace(tiny.arenas["vit"], sweep_steps=20)}  # than the first steps, which a preflight takes
    suite = replace(tiny, optimizers=plans, reference="AdamW", arenas=longer)
    (_, adamw), (_, stopped) = run_preview(suite, [1e-3], [DeviceSlot()])
    assert (tiny_folder / "stopped").exists()
    assert adamw.final("val") == stopped.final("val")


def test_a_preview_ends_with_the_command_of_its_study(tiny_folder, command):
    words = ["--arena", "vit", "--set", "Signs.momentum=0.8", "--baselines", "AdamW", "--lr", "1e-3"]
    shown = command("try", "own_optimizers:Signs", "--suite", "tiny.toml", *words)
    expected = (
        "    fairbench run tiny.toml --arenas vit --optimizers AdamW "
        "--add-optimizer own_optimizers:Signs --set 'Signs.momentum=0.8' -o results/Signs\n"
    )
    assert expected in shown


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((0.1, 0.3, 0.2), []),
        ((0.1, 0.2, 0.3), ["the highest learning rate is the best of AdamW; --lr tries others"]),
        ((0.3, 0.2, None), ["the lowest learning rate is the best of AdamW; --lr tries others"]),
        ((0.1, 0.2, None), []),  # where it diverges is no edge
        ((None, None, None), []),
        ((0.1,), []),
    ],
)
def test_a_best_rate_at_the_edge_of_a_preview_is_said(values, shown):
    lines = shown_preview({"AdamW": values})
    assert [line for line in lines if "is the best of" in line] == shown


@pytest.mark.parametrize(
    ("values", "is_shown"),
    [
        ((0.1, 0.3, 0.2), True),
        ((0.10001, 0.30001, 0.2), True),  # the table has four digits
        ((0.1, 0.3, 0.21), False),
        ((0.1, 0.3, None), True),
        ((0.1, None, None), False),  # one rate, at which neither may learn anything
    ],
)
def test_a_preview_says_that_two_optimizers_have_equal_values(values, is_shown):
    lines = shown_preview({"AdamW": (0.1, 0.3, 0.2), "Signs": values})
    told = "AdamW and Signs have equal values: this preview cannot tell them apart"
    assert (told in lines) is is_shown


def shown_preview(values):
    """The lines of a preview with these values of optimizers at three learning rates; None: diverged."""
    rows = []
    for optimizer, of_optimizer in values.items():
        for lr, value in zip((1e-4, 1e-3, 1e-2), of_optimizer, strict=False):
            status = "diverged" if value is None else "finished"
            rows.append(PreviewRow(optimizer, lr, "accuracy", value, status, ""))
    mini = load_suite("mini")
    plans = dict.fromkeys(values, OptimizerPlan())
    suite = replace(mini, arenas={"vit": mini.arenas["vit"]}, optimizers=plans)
    console = Console(file=io.StringIO(), width=150)
    console.print(Previewed(rows, columns=(), suite=suite, seconds=dict.fromkeys(values)))
    return console.file.getvalue().splitlines()


def test_an_optimizer_that_is_the_default_to_compare_with_is_previewed_alone(tiny_folder, command):
    shown = command("try", "AdamW", "--suite", "tiny.toml", "--lr", "1e-3")
    (head,) = [line for line in shown.splitlines() if line.startswith("lr")]
    assert head.split() == ["lr", "AdamW"]
    assert shown.endswith("\n    fairbench run tiny.toml -o results/AdamW\n")


def test_the_rates_of_a_preview():
    sweep = load_suite("mini").sweep
    searched = resolve_optimizer("AdamW", OptimizerPlan())
    fixed = resolve_optimizer("AdamW", OptimizerPlan(lr=0.5))
    scaled = resolve_optimizer("AdamW", OptimizerPlan(lr_scale=0.1))
    assert rates(searched, sweep, []) == [1e-4, 1e-3, 1e-2]
    assert rates(scaled, sweep, []) == pytest.approx([1e-5, 1e-4, 1e-3])
    assert rates(scaled, sweep, [3e-4]) == [3e-4]
    assert rates(fixed, sweep, [3e-4]) == [0.5]

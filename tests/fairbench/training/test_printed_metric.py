"""The pattern that a message shows for a printed number finds this number when it is used."""

import math

import pytest

from fairbench.arenas.program import ProgramOptions, own_folder
from fairbench.training.missing_metric import missing_metric
from fairbench.training.printed_metric import pattern_for
from fairbench.training.program_results import Reported, read_reported
from fairbench.training.result_files import OUTPUT, Folders

PRINTED = {
    "LightGBM": ("rmse", "Starting training...\nThe RMSE of prediction is: 0.46407\n", [0.46407]),
    "mnist": ("loss", "\nTest set: Average loss: 0.0345, Accuracy: 9876/10000 (99%)\n\n", [0.0345]),
    "cleanrl": ("charts/episodic_return", "global_step=9, episodic_return=[21.]\nSPS: 9\n", [21.0]),
    "Stable-Baselines3": ("rew_mean", "|    ep_len_mean  | 9  |\n|    ep_rew_mean  | -5.5  |\n", [-5.5]),
    "Lightning": ("accuracy", "\u2502   acc_of_all    \u2502  0.98653  \u2502\n", [0.98653]),
    "llm.c": ("perplexity", "step 1: train loss 5.2\nper-token perplexity -> 12.5 (best 12.1)\n", [12.5]),
    "aligned numbers": (
        "loss",
        "mean loss  2.5\nmean loss 12.5\nmean loss  -inf\nmean loss  1.5e-05\n",
        [2.5, 12.5, -math.inf, 1.5e-05],
    ),
    "a unit": ("loss", "mean loss 2.5nats\nmean loss 2.25nats\n", [2.5, 2.25]),
    "longer names": ("loss", "train mean loss: 2.5\nmean loss: 3.5\ntrain mean loss: 1.5\n", [3.5]),
    "colors": ("loss", "\x1b[32mmean loss:\x1b[0m 2.5\n", [2.5]),
    "quotes": ("loss", '"mean loss", "x"\n"mean loss": "2.5"\n', [2.5]),
}
"""What a program prints, for a metric that it was asked for, and the numbers that its author means."""


def values(folder, metric, text, patterns):
    """The values of a metric that are read from an output."""
    own = own_folder(folder)
    own.mkdir(exist_ok=True)
    (own / "output.txt").write_text(text)
    options = ProgramOptions("x", {metric: "min"}, patterns=patterns)
    return read_reported(Folders(folder), options, [{}]).values.get(f"val/{metric}", {})


@pytest.mark.parametrize("program", PRINTED)
def test_the_pattern_finds_the_number(tmp_path, program):
    metric, text, numbers = PRINTED[program]
    assert not values(tmp_path, metric, text, {})
    found = pattern_for(f"val/{metric}", text)
    assert found is not None
    assert float(found.number) == numbers[-1]
    assert "'" not in found.pattern  # a shell takes it in quotes
    with_pattern = values(tmp_path, metric, text, {f"val/{metric}": found.pattern})
    assert [*with_pattern.values()] == numbers


NOT_SAID = {
    "no number": ("loss", "mean loss: unknown"),
    "no such word": ("loss", "score: 2.5"),
    "a number of something else": ("accuracy", "Accuracy of the network on the 10000 test images: 54 %"),
    "a count between": ("loss", "loss after 10 steps: 2.5"),
    "a number in the name": ("top1", "top 1: 54"),
    "a mean behind a last value": ("acc", "Test: [4/4]  Acc@1:  60.412 ( 60.105)"),
    "a fraction": ("accuracy", "Accuracy of all: 812/1000 (81.2%)"),
    "the training": ("loss", "train mean loss: 2.5"),
    "another step": ("loss", "best mean loss: 2.5"),
    "another quantity": ("val_perplexity", "step 10: val loss 4.17"),
    "another of several words": ("ep_rew_mean", "|    ep_len_mean  | 9  |"),
    "two meanings": ("loss", "train: mean loss 2.5\nvalid: mean loss 3.5"),
}


@pytest.mark.parametrize("what", NOT_SAID)
def test_no_pattern_is_shown_where_the_number_may_be_another(what):
    metric, text = NOT_SAID[what]
    assert pattern_for(f"val/{metric}", text) is None


def test_a_metric_of_another_name_is_named_by_the_option_that_takes_it():
    names = {"lr", "step", "train_acc", "train_loss", "val_acc", "val_loss"}
    options = ProgramOptions("python train.py", {"accuracy": "max"})
    message = str(missing_metric("val/accuracy", Reported(names=names, sources=[OUTPUT]), options))
    assert message.startswith("no val/accuracy was reported; use --metric val_acc:max. The program printed val_acc, ")
    assert "printed val_acc, train_acc, val_loss, lr and 2 more. " in message
    message = str(missing_metric("val/accuracy", Reported(names=names - {"lr"}, sources=[OUTPUT]), options))
    assert "printed val_acc, train_acc, val_loss, step, train_loss. " in message, "a single one is not hidden"
    message = str(missing_metric("val/accuracy", Reported(names=names, sources=[OUTPUT]), options, "mine"))
    assert 'reported; say what has it: keys = { "val/accuracy" = "val_acc" }. ' in message
    assert "--metric " not in message, "the arena is in a suite file"


def test_a_metric_of_the_test_split_alone_is_offered_in_quotes():
    options = ProgramOptions("python train.py", {"acc": "max"})
    message = str(missing_metric("val/acc", Reported(names={"Test Acc", "Train Acc"}, sources=[OUTPUT]), options))
    assert "; use --metric 'Test Acc:max'. " in message

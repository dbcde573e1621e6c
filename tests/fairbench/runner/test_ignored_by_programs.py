"""Programs that ignore their learning rate or their optimizer: what proves it, and when a study stops."""

from pathlib import Path

import pytest
from programs import PLAIN, write_program
from tiny import run_here

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.common.exact_values import FEW_EXAMPLES, MANY_EXAMPLES, is_exact
from fairbench.runner.preflight import run_preflight
from fairbench.suites.loader import load_suite
from fairbench.training.device_slot import DeviceSlot

OWN_RATE = "lr = 0.002\n" + PLAIN
ONE_OPTIMIZER = "optimizer = 'AdamW'\n" + PLAIN
ROUNDED = PLAIN.replace("loss_after(steps)", "round(loss_after(steps), 4)").replace("report(step=step,", "dict(")
RUN = ["run", "--suite", "mine.toml", "-o", "out", "--workers", "2"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    run_here(monkeypatch, tmp_path)
    return tmp_path


def records():
    """The number of records."""
    return len([*Path("out/trials").glob("*.json")])


def test_a_program_that_ignores_its_rate_is_named_before_any_trial(here):
    write_program(here, OWN_RATE)
    message = r"with AdamW, the learning rates 0\.001 and 0\.01 give the same values \(val/loss 0\.\d+ after 10 steps"
    with pytest.raises(UsageError, match=message):
        run_preflight(load_suite("mine.toml"), DeviceSlot(), lambda function, *given: function(*given))


@pytest.mark.parametrize(
    ("rest", "most", "message"),
    [
        (OWN_RATE, 3, "{lr} reaches the command, and the program does not train with it. A loop that sets the rate"),
        ("lr = 0.002\n" + ROUNDED, 6, "the learning rates 0.001, 0.00316 and 0.01 give the same values"),
    ],
)
def test_a_study_stops_where_two_rates_give_the_same_values(here, capsys, rest, most, message):
    write_program(here, rest)
    unchecked = [*RUN, "--first-steps", "0"]
    assert main(unchecked) == 2
    assert message in capsys.readouterr().err
    before = records()
    assert before <= most
    assert main(unchecked) == 2  # the records tell it again, without another trial
    assert records() == before


def test_a_study_stops_where_the_optimizer_changes_nothing(here, capsys):
    write_program(here, ONE_OPTIMIZER)
    assert main(RUN) == 2
    message = "AdamW and PsiLogic give the same values at learning rate 0.001"
    assert message in capsys.readouterr().err
    assert records() <= 8  # of 14


TAKEN = "Path(f'{out}.trial', 'asked-optimizer').touch()\n"  # as trial.optimizer does
ACCURACY = "report(step=steps, val_loss=round(seed / 10 % 1, 1), test_loss=0.5)\n"


@pytest.mark.parametrize("rest", [TAKEN + ONE_OPTIMIZER, ACCURACY])
def test_equal_values_may_be_right(here, no_figures, rest):
    """An optimizer that fairbench has made may begin as another one does, and one of ten accuracies is often met."""
    write_program(here, rest)
    assert main([*RUN, "--seeds", "2"]) == 0


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.7, (False, False)),
        (11 / 15, (False, False)),
        (100 * 7351 / 10_000, (False, False)),
        (3.2841, (True, False)),
        (0.693147, (True, True)),
        (0.6931471805599453, (True, True)),
    ],
)
def test_an_exact_value_is_none_of_a_few_examples_or_digits(value, exact):
    assert (is_exact(value, FEW_EXAMPLES), is_exact(value, MANY_EXAMPLES)) == exact

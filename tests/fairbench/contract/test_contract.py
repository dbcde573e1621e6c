"""`fairbench check`: a sound optimizer passes every check, and each fault fails the check made for it."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fairbench.common.checks import Flag
from fairbench.contract import run_checks
from fairbench.contract.case import ShortTraining, case_of
from fairbench.contract.checks import CONTRACT_CHECKS, checked
from fairbench.contract.cost import state_bytes
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.training.device_slot import DeviceSlot

pytestmark = pytest.mark.xdist_group("check")

WRONG = Path(__file__).with_name("wrong.py")
"""The file of the optimizers that have no module in the cases below."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked")
    shutil.copy(WRONG, folder / "wrong.py")
    return str(folder)


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def executor():
    with ProcessExecutor([DeviceSlot()], preload=run_checks.PRELOAD) as executor:
        yield executor


def test_a_note_has_no_advice():
    needy = case_of("AdamW", OptimizerPlan(needs=["closure"]))
    check = next(check for check in CONTRACT_CHECKS if check.name == "missing gradients")
    flag = checked(check, needy)
    assert flag.severity == "note"
    assert flag.advice == ""


@dataclass
class Case:
    """What a check finds in an optimizer: a class in `wrong.py`, or `module:Class`."""

    severity: str
    optimizer: str
    check: str
    evidence: str

    def __str__(self):
        return f"{self.optimizer}, {self.check}"


def fails(optimizer, check, evidence):
    return Case("fail", optimizer, check, evidence)


def warns(optimizer, check, evidence):
    return Case("warn", optimizer, check, evidence)


def notes(optimizer, check, evidence):
    return Case("note", optimizer, check, evidence)


def passes(optimizer, check, evidence):
    return Case("pass", optimizer, check, evidence)


LEARNING = [
    fails("NoBiases", "every tensor", "tensors with a gradient never move, such as vit.embeddings.patch"),
    fails("Freezes", "every tensor", "with a gradient into torch.float32"),
    notes("Skips", "every tensor", "of 40 steps, such as step 1, move no weight although there are gradients"),
    passes("Skips", "lr schedule", "0.50 times as far, lr 0 not at all"),
    fails("Halves", "every tensor", "into torch.bfloat16"),
    warns("Curved", "unused parts", "'curvature' stays 0 in 40 steps, update_curvature() is never called"),
    passes("Sharp", "unused parts", "every state changes"),
    fails("OwnRate", "lr schedule", "at half the lr a step moves 24 of 24 tensors as far as before"),
    warns("Lagging", "lr schedule", "at lr 0 a step still moves the weights, "),
    fails("Rewrites", "lr schedule", "step 1 changes group['lr'] from 0.005 to 0.00495"),
    passes("torch.optim:ASGD", "lr schedule", "0.50 times as far, lr 0 not at all, from the second step on"),
]
GROUPS = [
    fails("FirstGroup", "parameter groups", "the last one with lr 0, 12 of its 12 tensors move"),
    fails("OnlyFirstGroup", "parameter groups", "in 2 groups, 12 of 23 tensors with a gradient never move"),
    fails("OwnDecay", "parameter groups", "a weight decay of 0.1 in the last of several groups has no effect"),
    notes("torch.optim:LBFGS", "parameter groups", "not tried: it raises ValueError: LBFGS doesn't support"),
    passes("psilogic:PsiLogic", "parameter groups", "every group is trained with its own rate and weight decay"),
    passes("Skips", "parameter groups", "every group is trained with its own rate and weight decay"),
    fails(
        "SharedCount", "order of groups", "with the two groups in the opposite order, 24 of 24 tensors end elsewhere"
    ),
    passes("WarmsUp", "order of groups", "the order of the groups does not matter"),
    notes("Noisy", "order of groups", "not tried: a step draws random numbers"),
]
REPEATING = [
    fails("Forgets", "resumes", "it keeps remembered on itself and not in its state"),
    fails("Lookahead", "resumes", " of 40 steps: it keeps remembered on itself"),
    fails("Unpicklable", "resumes", "torch.load(weights_only=True) refuses its state, which holds"),
    warns("WarmsUp", "state_dict", "differs: it does not contain steps, which the optimizer keeps on itself"),
    passes("Signs", "state_dict", "a training resumes from it bit for bit"),
    warns("Masters", "loaded weights", "weights in bfloat16 that are loaded after the constructor are lost"),
    warns("Masters32", "loaded weights", "weights in float32 that are loaded after the constructor are lost"),
    passes("torch.optim:SGD", "loaded weights", "the first step starts from the weights that were loaded"),
    fails("Unseeded", "deterministic", "after 40 steps the weights of two runs differ by "),
    warns("Noisy", "global random state", "it changes torch's in step 1, torch's in step 2"),
]
GLOBAL_SETTINGS = [
    fails(
        "Settings",
        "global settings",
        "it changes torch.get_default_dtype() from torch.float32 to torch.float64; it changes "
        "torch.get_num_threads() from 1 to 2; it changes torch.are_deterministic_algorithms_enabled() from False",
    ),
    fails("NoGradients", "global settings", "is_grad_enabled() from True to False"),
    fails("Patches", "global settings", "it replaces torch.nn.functional.cross_entropy"),
    fails("Forks", "global settings", "it changes the number of forks of its process from 0 to 1"),
]
GRADIENTS = [
    warns("Sullies", "gradients untouched", "a step changes p.grad of 24 of 24 tensors"),
    warns("Clips", "gradients untouched", "of 24 of 24 tensors if the gradients are 10000 times as large"),
    passes("Skips", "missing gradients", "does not move, and is trained once it has one"),
    fails("Invents", "missing gradients", "a parameter without a gradient is moved"),
    fails("Divides", "zero gradients", "24 of 24 tensors are not finite"),
    warns("Divides", "closure", "step(closure) does not call the closure"),
    passes("Sharp", "sparse gradients", "it takes them"),
    passes("Sharp", "bfloat16 weights", "they are trained"),
    passes("Sharp", "closure", "step(closure) calls the closure and returns its loss"),
]
COST = [
    notes("Signs", "arguments", "it gets the parameters and lr = 0.01, "),
    warns("Hoards", "long training", "after 200 steps it holds "),
    warns("Slows", "long training", "times as long as early ones"),
    passes("Sharp", "long training", "neither the memory nor the time"),
    passes("torch.optim:SGD", "long training", "over 200 steps neither the memory nor the time of a step grows"),
]


SIMILAR = ("Skips, parameter groups", "Skips, lr schedule", "Forgets, resumes", "Masters32, loaded weights")
SIMILAR += ("Sharp, long training", "Sharp, unused parts")
"""Another case has the same severity of the same check, for nearly the same reason."""
CASES = []
for case in (*LEARNING, *GROUPS, *REPEATING, *GLOBAL_SETTINGS, *GRADIENTS, *COST):
    CASES.append(pytest.param(case, marks=pytest.mark.soak if str(case) in SIMILAR else (), id=str(case)))


@pytest.mark.parametrize("case", CASES)
def test_each_fault_fails_its_check_and_what_is_sound_passes(case, executor):
    factory = case.optimizer
    if ":" not in factory:
        factory = f"wrong.py:{factory}"
    name = factory.partition(":")[2]
    trainings = [{"lr": 1e-2, "start": 2.3, "end": 1.0}]
    result = executor.call(run_checks.check_optimizer, case.check, name, OptimizerPlan(factory), trainings)
    flag = Flag(**result)
    assert flag.severity == case.severity
    assert bool(flag.advice) == (case.severity in ("fail", "warn"))
    assert case.evidence in flag.evidence


def test_the_state_of_adamw_is_two_numbers_for_each_weight():
    training = ShortTraining(lr=1e-3, start=2.3, end=1.0)
    adamw = replace(case_of("AdamW", OptimizerPlan()), trainings=[training])
    assert state_bytes(adamw.training(1)) == pytest.approx(8, abs=0.1)


def test_an_optimizer_that_climbs_fails(executor):
    trained = executor.call(run_checks.train, "Climbs", OptimizerPlan("wrong.py:Climbs", lr=1e-3))
    assert trained["flag"]["severity"] == "fail"
    assert trained["flag"]["evidence"].startswith("the best result of lr 0.001: the loss of the training")


def rows_of(shown):
    """The severity and the evidence of each check, in the order of the table that the command shows."""
    *lines, _ = shown.splitlines()
    rows = {}
    for line in lines:
        if line[0] != " ":
            name = line[6:27].strip()
            rows[name] = (line[:4], line[27:].strip())
    return rows


def test_an_optimizer_that_breaks_its_process_has_every_row(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(run_checks, "CHECK_LIMIT", 4.0)
    rows = rows_of(command("check", "wrong.py:Breaks", code=1))
    assert list(rows) == [check.name for check in CONTRACT_CHECKS]
    assert rows["missing gradients"] == ("fail", "the process ended with code 3 and no result")
    severity, evidence = rows["sparse gradients"]
    assert severity == "fail"
    assert evidence.startswith("it raises SystemExit: this is the end (wrong.py")
    assert rows["zero gradients"] == ("fail", "the process ended with signal 11 and no result")
    severity, evidence = rows["closure"]
    assert severity == "fail"
    assert "no end after 4 s; it was running step, line " in evidence
    assert rows["global settings"] == ("fail", "it changes the number of forks of its process from 0 to 1")
    assert rows["trains"] == ("fail", "the process ended with code 4 and no result")
    assert rows["resumes"][0] == "fail"
    assert rows["parameter groups"][0] == "pass"
    assert rows["gradients untouched"][0] == "pass"


def test_after_a_training_that_raises_nothing_else_is_tried(command):
    shown = command("check", "wrong.py:Raises", code=1)
    assert "fail  trains  it raises ArithmeticError: no step can be taken for many reasons" in shown
    assert "-> fix this first" in shown
    assert shown.endswith("1 fail, 0 warn, 0 note, 0 pass\n")
    message = command("check", "wrong.py:Signs", "--set", "Signs.momentmu=0.5", code=2)
    assert "unknown hyperparameter of Signs 'momentmu'; did you mean 'momentum'?" in message

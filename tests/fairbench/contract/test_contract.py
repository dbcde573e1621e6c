"""`fairbench check`: a sound optimizer passes every check, and each fault fails the check made for it."""

import pytest

from fairbench.common.checks import Flag
from fairbench.contract import case, run_checks
from fairbench.contract.case import ShortTraining, case_of
from fairbench.contract.checks import CONTRACT_CHECKS, checked
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.training.device_slot import DeviceSlot

pytestmark = pytest.mark.xdist_group("check")

SIGNS = '''
import os
import signal
import sys
import time

import torch
import torch.nn.functional as F


class Signs(torch.optim.Optimizer):
    """Sign momentum; each subclass has one wrong method."""

    def __init__(self, params, lr=1e-3, momentum=0.9, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        self.remembered, self.steps = {}, 0

    def groups(self):
        return self.param_groups

    def end(self):
        pass

    def average(self, p):
        return self.state[p].setdefault("average", torch.zeros_like(p))

    def gradient(self, p):
        return p.grad

    def rate(self, group):
        return group["lr"]

    def decay(self, group):
        return group["weight_decay"]

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.steps += 1
        for group in self.groups():
            for p in group["params"]:
                if (gradient := self.gradient(p)) is not None:
                    average, rate = self.average(p).lerp_(gradient, 1 - group["momentum"]), self.rate(group)
                    p.mul_(1 - rate * self.decay(group)).add_(average.sign(), alpha=-rate)
        self.end()
        return loss

    def params(self):
        return [p for group in self.param_groups for p in group["params"]]
'''
ONE_METHOD = {
    "Climbs": 'rate(self, group): return -group["lr"]',
    "OwnRate": 'rate(self, group): return self.defaults["lr"]',
    "FirstGroup": 'rate(self, group): return self.param_groups[0]["lr"]',
    "Forgets": "average(self, p): return self.remembered.setdefault(p, torch.zeros_like(p))",
    "Unpicklable": 'average(self, p): self.state[p]["kind"] = Signs; return super().average(p)',
    "Noisy": "gradient(self, p): return None if p.grad is None else p.grad + torch.randn(p.shape)",
    "Sullies": "gradient(self, p): return None if p.grad is None else p.grad.mul_(2)",
    "Invents": "gradient(self, p): return torch.ones_like(p) if p.grad is None else p.grad",
    "Raises": 'gradient(self, p): raise ArithmeticError("no step can be taken\\nfor many reasons")',
    "OnlyFirstGroup": "groups(self): return self.param_groups[:1]",
    "NoBiases": "gradient(self, p): return None if p.dim() == 1 else p.grad",
    "OwnDecay": 'decay(self, group): return self.defaults["weight_decay"]',
    "Rewrites": 'end(self): self.param_groups[0]["lr"] *= 0.99',
    "NoGradients": "step(self, closure=None): super().step(closure); torch.set_grad_enabled(False)",
    "Patches": "end(self): F.cross_entropy = lambda *values, **options: torch.zeros((), requires_grad=True)",
    "Freezes": "end(self): self.params()[3].requires_grad_(self.steps < 10)",
    "Hoards": "end(self): self.remembered[self.steps] = self.params()[0].clone()",
    "Slows": "end(self): sum(range(4 * self.steps**2))",
}
"""Subclasses of Signs, each with one wrong method."""
LONGER = '''
class Lagging(Signs):
    def rate(self, group):
        before, self.last = getattr(self, "last", group["lr"]), group["lr"]
        return before + group["lr"]


class Unseeded(Signs):
    def gradient(self, p):
        own = torch.Generator()
        own.seed()
        return None if p.grad is None else p.grad + torch.randn(p.shape, generator=own)


class Divides(Signs):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad / p.grad.norm() * group["lr"])


class Lookahead(Signs):
    def end(self):
        if self.steps % 5 == 0:
            for p in self.params():
                slow = self.remembered.setdefault(p, p.clone())
                p.copy_(slow.lerp_(p, 0.5))


class Settings(Signs):
    def end(self):
        if self.steps == 38:
            torch.set_default_dtype(torch.float64)
            torch.set_num_threads(2)
            torch.use_deterministic_algorithms(True)


class Forks(Signs):
    def end(self):
        if self.steps == 2 and os.fork():
            os.wait()


class Halves(Signs):
    def end(self):
        if self.steps == 10:
            self.params()[3].data = self.params()[3].data.bfloat16()


class Sharp(Signs):
    """Takes the gradients that are there, and new ones."""

    @torch.no_grad()
    def step(self, closure):
        norm = torch.stack([p.grad.norm() for p in self.params() if p.grad is not None]).norm()
        old = [p.clone() for p in self.params()]
        for p in self.params():
            p.add_(p.grad * (0.05 / (norm + 1e-12)))
        with torch.enable_grad():
            loss = closure()
        for p, start in zip(self.params(), old):
            p.copy_(start - self.param_groups[0]["lr"] * p.grad)
        return loss


class Curved(Signs):
    """Its authors' loop updates the curvature."""

    def average(self, p):
        self.state[p].setdefault("curvature", torch.zeros_like(p))
        return super().average(p)

    def update_curvature(self):
        for p in self.params():
            self.state[p]["curvature"].add_(p.grad.square())


class Breaks(Signs):
    """Ends, crashes or hangs in different checks, and forks in each."""

    @torch.no_grad()
    def step(self, closure=None):
        first = self.params()[0]
        if self.defaults["lr"] < 1e-3:
            os._exit(4)
        if closure is not None:
            time.sleep(1000)
        if first.grad is None:
            os._exit(3)
        if first.grad.is_sparse:
            sys.exit("this is the end")
        if not first.grad.any():
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.steps == 4 or len(self.params()) == 4:
            raise ArithmeticError("neither long trainings nor small models")
        if self.steps == 0:
            os.fork()
        return super().step()
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked")
    methods = [f"class {name}(Signs):\n    def {method}\n" for name, method in ONE_METHOD.items()]
    (folder / "wrong.py").write_text("\n".join([SIGNS, *methods, LONGER]))
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
    flag = checked(next(check for check in CONTRACT_CHECKS if check.name == "missing gradients"), needy)
    assert (flag.severity, flag.advice) == ("note", "")


@pytest.mark.parametrize(
    ("factory", "check", "severity", "evidence"),
    [
        ("NoBiases", "every tensor", "fail", "tensors with a gradient never move, as vit.embeddings.patch"),
        ("Freezes", "every tensor", "fail", "with a gradient into torch.float32"),
        ("Halves", "every tensor", "fail", "into torch.bfloat16"),
        ("OwnRate", "lr schedule", "fail", "at half the lr a step moves 24 of 24 tensors as far as before"),
        ("Lagging", "lr schedule", "warn", "at lr 0 a step still moves the weights, "),
        ("Rewrites", "lr schedule", "fail", "step 1 changes group['lr'] from 0.005 to 0.00495"),
        ("torch.optim:ASGD", "lr schedule", "pass", "0.50 times as far, lr 0 not at all, from the second step on"),
        ("FirstGroup", "parameter groups", "fail", "the last one with lr 0, 12 of its 12 tensors move"),
        ("OnlyFirstGroup", "parameter groups", "fail", "in 2 groups, 12 of 23 tensors with a gradient never move"),
        ("OwnDecay", "parameter groups", "fail", "a weight decay of 0.1 in the last of several groups has no effect"),
        ("torch.optim:LBFGS", "parameter groups", "note", "not tried: it raises ValueError: LBFGS doesn't support"),
        ("psilogic:PsiLogic", "parameter groups", "pass", "every group is trained with its own rate and weight decay"),
        ("Sharp", "sparse gradients", "pass", "it takes them"),
        ("Sharp", "bfloat16 weights", "pass", "they are trained"),
        ("Sharp", "closure", "pass", "step(closure) calls the closure and returns its loss"),
        ("Sharp", "long training", "pass", "neither the memory nor the time"),
        ("Curved", "unused parts", "warn", "'curvature' stays 0 in 40 steps, update_curvature() is never called"),
        ("Sharp", "unused parts", "pass", "every state changes"),
        ("Signs", "arguments", "note", "it gets the parameters and lr = 0.01, "),
        ("Forgets", "resumes", "fail", "it keeps remembered on itself and not in its state"),
        ("Lookahead", "resumes", "fail", " of 40 steps: it keeps remembered on itself"),
        ("Unpicklable", "resumes", "fail", "torch.load(weights_only=True) refuses its state, which holds"),
        ("Unseeded", "deterministic", "fail", "after 40 steps the weights of two runs differ by "),
        ("Noisy", "global random state", "warn", "it changes torch's in step 1, torch's in step 2"),
        (
            "Settings",
            "global settings",
            "fail",
            "it changes torch.get_default_dtype() from torch.float32 to torch.float64; it changes "
            "torch.get_num_threads() from 1 to 2; it changes torch.are_deterministic_algorithms_enabled() from False",
        ),
        ("NoGradients", "global settings", "fail", "is_grad_enabled() from True to False"),
        ("Patches", "global settings", "fail", "it replaces torch.nn.functional.cross_entropy"),
        ("Forks", "global settings", "fail", "it changes the number of forks of its process from 0 to 1"),
        ("Sullies", "gradients untouched", "warn", "a step changes p.grad of 24 of 24 tensors"),
        ("Invents", "missing gradients", "fail", "a parameter without a gradient is moved"),
        ("Divides", "zero gradients", "fail", "24 of 24 tensors are not finite"),
        ("Divides", "closure", "warn", "step(closure) does not call the closure"),
        ("Hoards", "long training", "warn", "after 200 steps it holds "),
        ("Slows", "long training", "warn", "times as long as early ones"),
        ("torch.optim:SGD", "long training", "pass", "over 200 steps neither the memory nor the time of a step grows"),
    ],
)
def test_each_fault_fails_its_check_and_what_is_sound_passes(factory, check, severity, evidence, executor):
    name, plan = factory.split(":")[-1], OptimizerPlan(factory if ":" in factory else f"wrong.py:{factory}")
    flag = Flag(
        **executor.call(run_checks.check_optimizer, check, name, plan, [{"lr": 1e-2, "start": 2.3, "end": 1.0}])
    )
    assert (flag.severity, bool(flag.advice)) == (severity, severity in ("fail", "warn"))
    assert evidence in flag.evidence


def test_the_state_of_adamw_is_two_numbers_for_each_weight():
    from fairbench.contract.cost import state_bytes

    adamw = case.replace(case_of("AdamW", OptimizerPlan()), trainings=[ShortTraining(1e-3, 2.3, 1.0)])
    assert state_bytes(adamw.training(1)) == pytest.approx(8, abs=0.1)


def test_an_optimizer_that_climbs_fails(executor):
    trained = executor.call(run_checks.train, "Climbs", OptimizerPlan("wrong.py:Climbs", lr=1e-3))
    assert trained["flag"]["severity"] == "fail"
    assert trained["flag"]["evidence"].startswith("the best result of lr 0.001: the loss of the training")


def test_an_optimizer_that_breaks_its_process_has_every_row(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(run_checks, "CHECK_LIMIT", 4.0)
    *lines, _ = command("check", "wrong.py:Breaks", code=1).splitlines()
    rows = {line[6:27].strip(): (line[:4], line[27:].strip()) for line in lines if line[0] != " "}
    assert list(rows) == [check.name for check in CONTRACT_CHECKS]
    assert rows["missing gradients"] == ("fail", "the process ended with code 3 and no result")
    verdict, evidence = rows["sparse gradients"]
    assert (verdict, evidence[:47]) == ("fail", "it raises SystemExit: this is the end (wrong.py")
    assert rows["zero gradients"] == ("fail", "the process ended with signal 11 and no result")
    assert rows["closure"][0] == "fail"
    assert "no end after 4 s; it was running step, line " in rows["closure"][1]
    assert rows["global settings"] == ("fail", "it changes the number of forks of its process from 0 to 1")
    assert rows["trains"] == ("fail", "the process ended with code 4 and no result")
    assert rows["resumes"][0] == "fail"
    assert rows["parameter groups"][0] == rows["gradients untouched"][0] == "pass"


def test_after_a_training_that_raises_nothing_else_is_tried(command):
    shown = command("check", "wrong.py:Raises", code=1)
    assert "fail  trains  it raises ArithmeticError: no step can be taken for many reasons" in shown
    assert "-> fix this first" in shown
    assert shown.endswith("1 fail, 0 warn, 0 note, 0 pass\n")
    message = command("check", "wrong.py:Signs", "--set", "Signs.momentmu=0.5", code=2)
    assert "unknown hyperparameter of Signs 'momentmu'; did you mean 'momentum'?" in message

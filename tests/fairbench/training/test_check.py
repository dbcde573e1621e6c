"""`fairbench check`: a sound optimizer passes every check, and each fault fails the check made for it."""

import pytest

from fairbench.cli.main import main
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.training.check import CONTRACT_CHECKS, case, check_optimizer, checked
from fairbench.training.check.case import Case, ShortTraining, case_of, trained

pytestmark = pytest.mark.xdist_group("libraries")

WRONG = '''
import torch


class Signs(torch.optim.Optimizer):
    """Sign momentum; each subclass has one wrong method."""

    def __init__(self, params, lr=1e-3, momentum=0.9):
        super().__init__(params, dict(lr=lr, momentum=momentum))
        self.remembered = {}

    def average(self, p):
        return self.state[p].setdefault("average", torch.zeros_like(p))

    def gradient(self, p):
        return p.grad

    def rate(self, group):
        return group["lr"]

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if (gradient := self.gradient(p)) is not None:
                    average = self.average(p).lerp_(gradient, 1 - group["momentum"])
                    p.add_(average.sign(), alpha=-self.rate(group))
        return loss


class Climbs(Signs):
    def rate(self, group):
        return -group["lr"]


class OwnRate(Signs):
    def rate(self, group):
        return self.defaults["lr"]


class FirstGroup(Signs):
    def rate(self, group):
        return self.param_groups[0]["lr"]


class Lagging(Signs):
    def rate(self, group):
        before, self.last = getattr(self, "last", group["lr"]), group["lr"]
        return before + group["lr"]


class Forgets(Signs):
    def average(self, p):
        return self.remembered.setdefault(p, torch.zeros_like(p))


class Unpicklable(Signs):
    def average(self, p):
        self.state[p]["kind"] = Signs
        return super().average(p)


class Noisy(Signs):
    def gradient(self, p):
        return None if p.grad is None else p.grad + torch.randn(p.shape)


class Unseeded(Signs):
    def gradient(self, p):
        own = torch.Generator()
        own.seed()
        return None if p.grad is None else p.grad + torch.randn(p.shape, generator=own)


class Sullies(Signs):
    def gradient(self, p):
        return None if p.grad is None else p.grad.mul_(2)


class Invents(Signs):
    def gradient(self, p):
        return torch.ones_like(p) if p.grad is None else p.grad


class Divides(Signs):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad / p.grad.norm() * group["lr"])


class Raises(Signs):
    def gradient(self, p):
        raise ArithmeticError("no step can be taken\\nfor many reasons")
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("checked")
    (folder / "wrong.py").write_text(WRONG)
    return str(folder)


@pytest.fixture(autouse=True)
def in_folder(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def of(name: str) -> Case:
    """A user-defined optimizer at one rate, without the trainings, which only the first check needs."""
    untrained = case_of(name, OptimizerPlan(f"wrong.py:{name}"))
    return case.replace(untrained, trainings=[ShortTraining(1e-2, 2.3, 1.0)])


BY_NAME = {check.name: check for check in CONTRACT_CHECKS}


def test_a_sound_optimizer_passes_every_check() -> None:
    results = {each["name"]: each["severity"] for each in check_optimizer("Signs", OptimizerPlan("wrong.py:Signs"))}
    assert list(results) == list(BY_NAME)
    notes = {"sparse gradients", "state", "step time"}
    assert results == {name: "note" if name in notes else "pass" for name in results}


def test_a_note_has_no_advice() -> None:
    needy = case_of("Signs", OptimizerPlan("wrong.py:Signs", needs=("closure",)))
    flag = checked(BY_NAME["missing gradients"], needy)
    assert (flag.severity, flag.advice) == ("note", "")


@pytest.mark.parametrize(
    ("name", "check", "severity", "evidence"),
    [
        ("OwnRate", "lr schedule", "fail", "at half the lr a step moves the weights as far as before"),
        ("Lagging", "lr schedule", "warn", "at lr 0 a step still moves the weights, "),
        ("FirstGroup", "parameter groups", "fail", "in a group with lr 0 12 of 12 tensors move"),
        ("Forgets", "resumes", "fail", "it keeps remembered on itself and not in its state"),
        ("Unpicklable", "resumes", "fail", "torch.load(weights_only=True) refuses its state, which holds"),
        ("Unseeded", "deterministic", "fail", "after 3 steps the weights of two runs differ by "),
        ("Noisy", "global random state", "warn", "it changes torch's in step 1, torch's in step 2"),
        ("Sullies", "gradients untouched", "warn", "a step changes p.grad of 24 of 24 tensors"),
        ("Invents", "missing gradients", "fail", "a parameter without a gradient is moved"),
        ("Divides", "zero gradients", "fail", "24 of 24 tensors are not finite"),
        ("Divides", "closure", "warn", "step(closure) does not call the closure"),
    ],
)
def test_each_fault_fails_its_check(name: str, check: str, severity: str, evidence: str) -> None:
    flag = BY_NAME[check].flag(of(name))
    assert (flag.severity, bool(flag.advice)) == (severity, True)
    assert evidence in flag.evidence


def test_one_that_climbs_does_not_train() -> None:
    flag = BY_NAME["trains"].flag(trained(case_of("Climbs", OptimizerPlan("wrong.py:Climbs"))))
    assert flag.severity == "fail"
    assert flag.evidence.startswith("the best result of lr 0.0001, 0.001, 0.01, 0.1, 1: the training loss goes from")


def test_the_state_of_adamw_is_two_numbers_for_each_weight() -> None:
    from fairbench.training.check.cost import state_bytes

    adamw = case.replace(case_of("AdamW", OptimizerPlan()), trainings=[ShortTraining(1e-3, 2.3, 1.0)])
    assert state_bytes(adamw.training(1)) == pytest.approx(8, abs=0.1)


def test_the_command_shows_every_check_and_fails_on_a_fail(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "wrong.py:Raises"]) == 1
    shown = capsys.readouterr().out
    assert "fail  trains  it raises ArithmeticError: no step can be taken for many reasons" in shown
    assert "-> fix this first" in shown
    assert shown.endswith("1 fail, 0 warn, 0 note, 0 pass\n")
    assert main(["check", "wrong.py:Signs", "--set", "Signs.momentmu=0.5"]) == 2
    assert "unknown hyperparameter of Signs 'momentmu'; did you mean 'momentum'?" in capsys.readouterr().err

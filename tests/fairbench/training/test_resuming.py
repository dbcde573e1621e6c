"""An interrupted trial resumes from its checkpoint and ends with the same bits; real signals, a real full disk."""

import itertools
import random
import resource
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from tiny import here, study_of

from fairbench.common.errors import OutOfMemory, Paused
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.preflight import run_preflight
from fairbench.study.planned_trial import trial_spec
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.training import checkpoint as checkpoints
from fairbench.training.checkpoint import Checkpoint
from fairbench.training.device_memory import explain_out_of_memory
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trial import trial

pytestmark = pytest.mark.xdist_group("resuming")

USER_OPTIMIZERS = """
import random
import threading
import types

import numpy
import torch


class Own(torch.optim.SGD):
    '''Each subclass changes the gradients, or the weights after a step, by what it remembers.'''

    def __init__(self, params, lr=1e-3):
        super().__init__(params, lr)
        self.steps = 0
        self.start()

    def params(self):
        return [p for group in self.param_groups for p in group["params"]]

    def start(self):
        pass

    def change(self, p):
        pass

    def end(self):
        pass

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for p in self.params():
            self.change(p)
        super().step(closure)
        self.end()


class Counts(Own):
    '''Its steps depend on counters that are attributes.'''

    seen = ()

    def change(self, p):
        p.grad.mul_(1 + self.steps % 3 + sum(self.seen) % 5)

    def end(self):
        self.seen = (*self.seen, self.steps)


class Doubles(Own):
    '''Its state has twice the precision of the weights.'''

    def change(self, p):
        sum = self.state[p].setdefault("sum", torch.zeros_like(p, dtype=torch.float64))
        p.grad.copy_(sum.add_(p.grad.double() / 3))


class Draws(Own):
    '''Draws from the global generators.'''

    def change(self, p):
        p.grad.mul_(random.random() + numpy.random.rand()).add_(torch.randn_like(p))


class Hidden(Own):
    '''Keeps a momentum that is not in its state_dict.'''

    def start(self):
        self.memory = {}

    def change(self, p):
        p.grad.copy_(self.memory.setdefault(p, torch.zeros_like(p)).lerp_(p.grad, 0.5))


class Late(Own):
    '''Lookahead, which keeps its slow weights on itself from its fifth step on.'''

    def start(self):
        self.memo = types.SimpleNamespace(count=0)

    def end(self):
        if self.steps % 5 == 0:
            if not hasattr(self, "slow"):
                self.slow = [p.clone() for p in self.params()]
            for p, slow in zip(self.params(), self.slow):
                p.copy_(slow.lerp_(p, 0.5))


class Early(Late):
    '''It has them from the first step on, and changes them in its fifth.'''

    def start(self):
        self.slow = [p.clone() for p in self.params()]


class Careful(Late):
    '''Its state_dict has them, too.'''

    def state_dict(self):
        return {**super().state_dict(), "slow": getattr(self, "slow", [])}

    def load_state_dict(self, state):
        super().load_state_dict({name: value for name, value in state.items() if name != "slow"})
        if state["slow"]:
            self.slow = state["slow"]


class Wrapped(torch.optim.SGD):
    '''An optimizer around another one, whose state its state_dict returns.'''

    def __init__(self, params, lr=1e-3):
        super().__init__(params, lr)
        self.inner = torch.optim.Adam(self.param_groups)

    def step(self, closure=None):
        self.inner.param_groups[0]["lr"] = self.param_groups[0]["lr"]
        for state in self.inner.state.values():
            state["seen"] = state.get("seen", 0) + 1
        return self.inner.step()

    def state_dict(self):
        return {**super().state_dict(), "around": self.inner.state_dict()}

    def load_state_dict(self, state):
        super().load_state_dict({name: value for name, value in state.items() if name != "around"})
        self.inner.load_state_dict(state["around"])


class Counting(Own):
    '''What its steps depend on is a number in an object, which begins to change in its fifth step.'''

    def start(self):
        self.memo = types.SimpleNamespace(count=0)

    def change(self, p):
        p.grad.mul_(1 + self.memo.count)

    def end(self):
        self.memo.count += self.steps > 4


class Harmless(Counts):
    '''What it keeps on itself stays as it is, from its first steps on.'''

    def start(self):
        self.hooks, self.lock = [p.register_hook(lambda grad: grad) for p in self.params()], threading.Lock()
        self.scales = {id(p): torch.ones(()) for p in self.params()}

    def end(self):
        super().end()
        self.cache = getattr(self, "cache", None) or types.SimpleNamespace(model=self.param_groups, two=torch.ones(2))


class Unwatchable(torch.optim.SGD):
    '''The state of its mechanism cannot be saved.'''

    def mechanism(self, named_parameters):
        class Watch:
            def quantities(self):
                return {}
        return Watch()
"""
EXACT = ("result", "details", "status", "id")


@pytest.fixture
def user_folder(tiny_folder, monkeypatch):
    """The working directory has user-defined optimizers."""
    (tiny_folder / "user_optimizers.py").write_text(USER_OPTIMIZERS)
    monkeypatch.delitem(sys.modules, "user_optimizers", raising=False)


def arm(suite, name):
    """A final trial of an optimizer: user-defined, registered, or given as a factory."""
    factory = ""
    if ":" in name:
        factory = name
    elif f"class {name}(" in USER_OPTIMIZERS:
        factory = f"user_optimizers:{name}"
    options = {"max_iter": 3} if name.endswith("LBFGS") else {}
    optimizer = "it" if factory else name
    plan = OptimizerPlan(factory, options) if factory else OptimizerPlan()
    the_study = study_of(replace(suite, optimizers={optimizer: plan}, reference=optimizer))
    resolved = the_study.optimizers[optimizer]
    rate = resolved.lr or 1e-3 * resolved.lr_scale
    return short(trial_spec(the_study, "vit", optimizer, "final", rate, 1))


def short(spec, **options):
    """A trial of 12 steps; windows of 5 steps, evaluations after 6 and 12."""
    training = {"steps": 12, "log_every": 5, "evaluations": 2, "warmup_steps": 3, **options}
    return replace(spec, training=replace(spec.training, **training))


def stopped(spec, folder, after, why="^$"):
    """The checkpoints in a folder once a trial has got SIGTERM after a step, and has said why it cannot resume."""

    def terminate(step, loss):
        if step == after:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Paused, match=why):
        trial(spec, DeviceSlot(), terminate, Checkpoint(spec, DeviceSlot(checkpoints=str(folder))))
    return [*folder.iterdir()]


def paused(spec, folder, after):
    """The checkpoint of a trial that was stopped after a step."""
    (path,) = stopped(spec, folder, after)
    assert path.name == f"{spec.id}.pt"
    return path


def resumed(spec, folder):
    """The record of a trial, and the steps that it reported: none before its checkpoint."""
    steps = []
    checkpoint = Checkpoint(spec, DeviceSlot(checkpoints=str(folder)))
    return trial(spec, DeviceSlot(), lambda step, loss: steps.append(step), checkpoint), steps


def interrupted(spec, folder, *steps):
    """The record of a trial that was paused after these steps, the global generators changed in between."""
    for step in steps:
        paused(spec, folder, step)
        torch.manual_seed(99)
        np.random.seed(99)
        random.seed(99)
    return resumed(spec, folder)[0]


def assert_same(record, undisturbed):
    assert [getattr(record, part) for part in EXACT] == [getattr(undisturbed, part) for part in EXACT]


@dataclass
class SmallArena:
    """A small version of an arena of mini."""

    data: dict
    model: dict
    shock: dict


IMAGES = {"source": "digits", "crop_padding": 1, "flip": True}
GPT = SmallArena(
    data={"source": "stdlib", "context": 16, "evaluated": 16},
    model={"hidden_size": 8, "layers": 1, "heads": 1},
    shock={"kind": "labels", "at": [0.3, 0.7]},
)
VIT = SmallArena(
    data=IMAGES,
    model={"hidden_size": 8, "layers": 1, "heads": 1, "patch_size": 4},
    shock={"kind": "heavy-tail", "at": [0.2], "steps": 8},
)
RESNET = SmallArena(
    data=IMAGES,
    model={"width": 2},
    shock={"kind": "gradient", "at": [0.3, 0.7]},
)
DDPM = SmallArena(
    data=IMAGES,
    model={"channels": [4, 4], "norm_groups": 4, "attention_levels": []},
    shock={},
)
ARENAS = {"gpt": GPT, "vit": VIT, "resnet": RESNET, "ddpm": DDPM}


def small(arena):
    """A trial of PsiLogic in an arena."""
    suite = load_suite("mini", Overrides(optimizers=["PsiLogic"], reference="PsiLogic", seeds=1))
    case = ARENAS[arena]
    plan = replace(suite.arenas[arena], data=case.data, model=case.model, batch_size=8)
    suite = replace(suite, arenas={arena: plan})
    return trial_spec(study_of(suite), arena, "PsiLogic", "final", 1e-2, 1)


@pytest.mark.parametrize("arena", ARENAS)
def test_a_trial_ends_as_if_never_interrupted(arena, tmp_path):
    """With augmentation, noise, random shocks and a mechanism; before an evaluation, and after the last step."""
    spec = short(small(arena), shock=ARENAS[arena].shock, log_every=3)
    undisturbed = trial(spec)
    assert undisturbed.details.mechanism.totals["tensor_steps"] > 0
    record = interrupted(spec, tmp_path, 6, 12)
    assert_same(record, undisturbed)
    assert record.cost.seconds.total > record.cost.seconds.step > 0
    assert record.cost.peak_memory_bytes > 1e7


@pytest.mark.soak
@pytest.mark.parametrize("arena", ["gpt", "vit"])
def test_a_compiled_trial_ends_as_if_never_interrupted(arena, tmp_path):
    spec = short(small(arena), compile=True, log_every=3)
    undisturbed = trial(spec)
    torch._dynamo.reset()  # a resumed process compiles again
    assert_same(interrupted(spec, tmp_path, 6), undisturbed)


NEEDY = ("torch.optim:LBFGS", "SophiaH", "ScheduleFree", "AdamHD", "Kron", "fairbench.optimizers.controls:SlowNormClip")


@pytest.mark.parametrize("name", [*NEEDY, "Counts", "Doubles", "Careful", "Wrapped", "Harmless"])
def test_whatever_an_optimizer_remembers(tiny_suite, user_folder, name, tmp_path):
    """Closures, differentiable gradients, modes, a trained rate, counters as attributes, wider dtypes."""
    spec = arm(tiny_suite, name)
    assert_same(interrupted(spec, tmp_path / "kept", 5), trial(spec))


@pytest.mark.parametrize(("name", "kept"), [("Late", "slow"), ("Early", "slow"), ("Counting", "memo")])
def test_what_begins_after_the_first_steps_is_not_lost(tiny_suite, user_folder, name, kept, tmp_path, capsys):
    """No checkpoint is written once the optimizer keeps more on itself than after its first steps."""
    spec = short(arm(tiny_suite, name), log_every=3)
    why = f"it keeps {kept} on itself and not in its state"
    paused(spec, tmp_path / "kept", 3)
    assert stopped(spec, tmp_path / "kept", 6, why) == [], "a checkpoint stays that would be used"
    assert f"the trial continues without a new checkpoint: {why}" in capsys.readouterr().out
    record, steps = resumed(spec, tmp_path / "kept")
    assert steps[0] == 3
    assert_same(record, trial(spec))


def test_global_generators_resume(tiny_suite, user_folder, tmp_path):
    spec = arm(tiny_suite, "Draws")
    for seed in (random.seed, np.random.seed):
        seed(3)
    undisturbed = trial(spec)
    for seed in (random.seed, np.random.seed):
        seed(3)
    assert_same(interrupted(spec, tmp_path / "kept", 5), undisturbed)


@pytest.fixture
def spec(tiny_study):
    return short(trial_spec(tiny_study, "vit", "AdamW", "final", 1e-3, 1))


def with_bit_flipped(content, index):
    changed = bytearray(content)
    changed[index] ^= 1
    return bytes(changed)


def test_a_damaged_checkpoint_is_not_used(spec, tmp_path, capsys):
    path = paused(spec, tmp_path, 5)
    undisturbed = trial(spec)
    whole = path.read_bytes()
    assert resumed(spec, tmp_path)[1] == [10, 12]
    assert capsys.readouterr().out == ""
    clipped = torch.load(path)["state"]["clipped"].numpy().tobytes()
    damages = [
        with_bit_flipped(whole, whole.index(clipped)),  # torch would not notice
        with_bit_flipped(whole, len(whole) // 5),
        with_bit_flipped(whole, len(whole) // 2),
        whole[: len(whole) // 2],
        b"",
    ]
    for damaged in damages:
        path.write_bytes(damaged)
        record, steps = resumed(spec, tmp_path)
        assert_same(record, undisturbed)
        assert steps == [5, 10, 12]
        assert "the trial restarts; its checkpoint" in capsys.readouterr().out


def test_a_checkpoint_of_another_environment_is_not_used(spec, tmp_path, capsys, monkeypatch):
    paused(spec, tmp_path, 5)
    here_now = checkpoints.environment("cpu")
    monkeypatch.setattr(checkpoints, "environment", lambda device: {**here_now, "torch": "9.9"})
    assert resumed(spec, tmp_path)[1] == [5, 10, 12]
    assert f"torch {here_now['torch']!r} and not '9.9'" in capsys.readouterr().out


@contextmanager
def full_disk():
    """Limit every file of this process to 4096 bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_the_old_checkpoint_and_the_trial_continues(spec, tmp_path, capsys):
    path = paused(spec, tmp_path, 5)
    undisturbed = trial(spec)
    old = path.read_bytes()
    (tmp_path / f".{spec.id}.pt.killed.tmp").write_bytes(b"half")
    with full_disk():
        checkpoint = Checkpoint(spec, DeviceSlot(checkpoints=str(tmp_path), checkpoint_every=1e-9))
        record = trial(spec, DeviceSlot(), checkpoint=checkpoint)
    assert_same(record, undisturbed)
    assert path.read_bytes() == old
    files = [file.name for file in tmp_path.iterdir() if file.suffix in (".pt", ".tmp")]
    assert files == [path.name]
    assert capsys.readouterr().out.count("the trial continues without a new checkpoint: cannot write") == 1


def test_checkpoints_are_written_at_intervals(spec, tmp_path, monkeypatch):
    seconds = itertools.count()
    written = []
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: next(seconds))  # read once in each step
    monkeypatch.setattr(checkpoints, "write_state", lambda file, about, state: written.append(state["done"]))
    slot = DeviceSlot(checkpoints=str(tmp_path), checkpoint_every=4)
    trial(spec, DeviceSlot(), checkpoint=Checkpoint(spec, slot))
    assert written == [4, 8, 12]


REASONS = {
    "Hidden": "it keeps memory on itself and not in its state",
    "Unwatchable": "its state cannot be saved: AttributeError: 'Watch' object has no attribute 'state_dict'",
    "Counts": "",
    "Late": "",
    "Harmless": "",
}


def test_the_preflight_names_trials_that_would_restart(tiny_suite, user_folder):
    plans = {name: OptimizerPlan(f"user_optimizers:{name}") for name in REASONS}
    preflight = run_preflight(replace(tiny_suite, optimizers=plans, reference="Counts"), DeviceSlot(), here)
    assert {name: costs["vit"].restart_reason for name, costs in preflight.costs.items()} == REASONS
    assert preflight.restart_notice().splitlines() == [
        "these trials restart when they are interrupted:",
        *(f"  {name} (vit): {why}" for name, why in REASONS.items() if why),
    ]
    finals = {name: trial_spec(preflight.study, "vit", name, "final", 1e-3, 1) for name in plans}
    assert [name for name, spec in finals.items() if preflight.resumes(spec)] == ["Counts", "Late", "Harmless"]


def test_out_of_gpu_memory_says_how_much_was_needed_and_what_to_do():
    message = "CUDA out of memory. Tried to allocate 3.00 GiB.\nGPU 0 has a total capacity of 2 GiB."
    expected = r"Tried to allocate 3.00 GiB.; .*--trials-per-gpu.*smaller batch_size"
    with pytest.raises(OutOfMemory, match=expected), explain_out_of_memory("cpu"):
        raise torch.OutOfMemoryError(message)


def test_the_optimizers_of_the_suites_resume(tiny_suite):
    """A loaded state may have its keys in another order, which makes no other state of it."""
    assert run_preflight(tiny_suite, DeviceSlot(), here).restart_notice() == ""

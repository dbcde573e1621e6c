"""The preflight: the code that takes part, and what cannot work."""

import sys
import time
from dataclasses import replace
from itertools import product
from operator import attrgetter
from types import ModuleType

import pytest
import torch
from tiny import here, study_of

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.devices import RunOptions
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.preflight import run_preflight
from fairbench.runner.preload import PRELOAD, preload
from fairbench.runner.run_study import run_study
from fairbench.study.planned_trial import trial_spec
from fairbench.study.preflight_result import check_gpu_memory
from fairbench.study.target import target_in
from fairbench.suites.named_plans import named_arenas
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trainer import Trainer

pytestmark = pytest.mark.xdist_group("servers")  # they start many processes

HELPED = """
import torch
from helper import sign
from package import deep

class Helped(torch.optim.SGD):
    def step(self, closure=None):
        from late import scale
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.copy_(scale * sign(p.grad))
        return super().step(closure)
"""
FILES = {
    "helped.py": HELPED, "helper.py": "import torch\n\ndef sign(x):\n    return x.sign()\n",
    "late.py": "scale = 1.0\n", "package/__init__.py": "", "package/deep.py": "from package import deeper\n",
    "package/deeper.py": "", "package/unrelated.py": "",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An optimizer in several files, in the working directory."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


MODULES = [*PRELOAD, "fairbench.arenas.vit", "pytorch_optimizer"]


@pytest.fixture
def executor():
    with ProcessExecutor([DeviceSlot()], preload=MODULES) as running:
        yield running


def with_optimizer(suite, factory, **options):
    return replace(suite, optimizers={"Own": OptimizerPlan(factory, options)}, reference="Own")


def test_an_edit_of_the_code_that_takes_part_changes_the_trials(folder, tiny_suite, executor):
    """Helper modules, those of a package, and those that only a step imports; but not one that nothing imports."""

    def resolved():
        return run_preflight(with_optimizer(tiny_suite, "helped:Helped"), DeviceSlot(), executor.call).study

    first = resolved()
    assert [*first.optimizers["Own"].code] == [
        "helped", "helper", "late", "package", "package.deep", "package.deeper", "torch",
    ]  # fmt: skip
    ids = {trial_spec(first, "vit", "Own", "final", 1e-3, 1).id}
    for name, number in (("late.py", 2), ("package/unrelated.py", 2)):  # the others are noticed in the same way
        (folder / name).write_text(FILES[name] + "# edited\n")
        ids.add(trial_spec(resolved(), "vit", "Own", "final", 1e-3, 1).id)
        assert len(ids) == number, name


def test_a_module_that_was_edited_after_the_preflight_fails_the_trial(folder, tiny_suite, executor):
    study = run_preflight(with_optimizer(tiny_suite, "helped:Helped"), DeviceSlot(), executor.call).study
    outcomes = []
    for text in (FILES["helper.py"], FILES["helper.py"] + "# edited\n"):
        (folder / "helper.py").write_text(text)
        executor.submit(trial_spec(study, "vit", "Own", "sweep", 1e-3, 0), 60.0)
        outcomes += executor.collect()
    assert outcomes[0].status == "finished"
    assert outcomes[1].error.type == "UsageError"
    assert "helper.py was changed after this run had started" in outcomes[1].error.message


@pytest.mark.parametrize("name", ["__main__", "elsewhere"])
def test_a_class_without_a_source_file_is_refused(folder, tiny_suite, name, monkeypatch):
    """As the class of a notebook, or one that exec made."""
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    made = vars(module) if name == "__main__" else {"__name__": "nowhere"}
    exec("import torch\nclass Made(torch.optim.SGD): pass", made)
    module.Made = made["Made"]
    complaint = rf"{made['__name__']}.Made has no source file.*path/to/file.py:Made"
    with pytest.raises(UsageError, match=complaint):
        run_preflight(with_optimizer(tiny_suite, f"{name}:Made"), DeviceSlot(), here)


def test_installed_code_counts_by_version_and_our_kernels_by_content(tiny_suite, executor):
    suite = replace(tiny_suite, optimizers={**tiny_suite.optimizers, "Lion": OptimizerPlan()})
    study = run_preflight(suite, DeviceSlot(), executor.call).study
    assert study.optimizers["AdamW"].code.keys() == {"torch"}
    assert study.optimizers["Lion"].code.keys() == {"torch", "pytorch_optimizer"}
    psilogic = study.optimizers["PsiLogic"].code
    ours = {"psilogic.optimizer", "psilogic.monitor", "psilogic.decision", "psilogic.backends.cpu.kernels"}
    assert {*ours, "torch"} <= psilogic.keys()
    compiled = [name for name in sys.modules if name.startswith("psilogic.") and _is_compiled(sys.modules[name])]
    assert set(compiled) <= psilogic.keys()
    assert not {"psilogic.models.presets", "fairbench.training.trial"} & psilogic.keys()
    arena = study.arenas["vit"].code
    model = {"fairbench.arenas.vit", "fairbench.arenas.parts"}
    assert {*model, "fairbench.training.trial", "fairbench.data.loading", "torch"} <= arena.keys()
    assert not {"fairbench.cli.main", "fairbench.report"} & arena.keys()


def test_a_user_defined_arena_is_no_part_of_an_optimizers_code(folder, tiny_suite, executor):
    main(["new-arena", "noisy_sine"])
    arenas = named_arenas(["noisy_sine.py:NoisySine"], tiny_suite.arenas)
    suite = replace(with_optimizer(tiny_suite, "helped:Helped"), arenas=arenas)
    study = run_preflight(suite, DeviceSlot(), executor.call).study
    assert [*study.arenas["NoisySine"].code] == sorted(study.arenas["NoisySine"].code)
    assert "noisy_sine_py" in study.arenas["NoisySine"].code
    assert "noisy_sine_py" not in study.optimizers["Own"].code
    assert {"helped", "helper", "late"} <= study.optimizers["Own"].code.keys()
    assert "fairbench.arenas.vit" not in study.arenas["NoisySine"].code
    assert {"torch", "fairbench.data.splits"} <= set(preload(study.suite))


def _is_compiled(module):
    return str(getattr(module, "__file__", "")).endswith(".so")


ODD = """
import functools, sys, time, torch

class CannotStep(torch.optim.SGD):
    def step(self, closure=None, *, gradients):
        return super().step(closure)

class WithoutRate(torch.optim.Optimizer):
    def __init__(self, params, rate=0.1):
        super().__init__(params, {"rate": rate})

class Leaves(torch.optim.SGD):
    def __init__(self, params, lr):
        sys.exit(0)

class Hangs(torch.optim.SGD):
    def step(self, closure=None):
        while True:
            time.sleep(0.01)

class Asserts(torch.optim.SGD):
    def step(self, closure=None):
        assert len(self.param_groups) == 2

class Closure(torch.optim.SGD):
    def step(self, function=None):
        assert function, "it requires a closure"

class TwoSets(torch.optim.SGD):
    def __init__(self, params, others, lr):
        pass

class Misled(torch.optim.SGD):
    def __init__(self, params, lr):
        super().__init__(params.parameters(), lr)

Part = functools.partial(torch.optim.AdamW, betas=(0.9, 0.95))

class Maker:
    def __call__(self, params, lr, total_steps):
        return torch.optim.SGD(params, lr)

make = Maker()

class Horizon(torch.optim.SGD):
    def __init__(self, params, lr, total_steps):
        super().__init__(params, lr)
        self.total_steps = total_steps

class HandsOn(Horizon):
    def __init__(self, params, lr=0.1, **options):
        super().__init__(params, lr, **options)
"""


def test_an_optimizer_that_cannot_work_is_an_error_before_any_trial(folder, tiny_suite, executor, check_errors):
    (folder / "odd.py").write_text(ODD)

    def prepare(name):
        run_preflight(with_optimizer(tiny_suite, f"odd:{name}"), DeviceSlot(), executor.call)

    check_errors("optimizers.txt", prepare, UsageError)


@pytest.mark.parametrize("name", ["Part", "make"])
def test_anything_that_can_be_called_makes_an_optimizer(folder, tiny_suite, executor, name):
    (folder / "odd.py").write_text(ODD)
    study = run_preflight(with_optimizer(tiny_suite, f"odd:{name}"), DeviceSlot(), executor.call).study
    assert "odd" in study.optimizers["Own"].code
    assert study.optimizers["Own"].options.get("betas") == ([0.9, 0.95] if name == "Part" else None)
    assert study.optimizers["Own"].horizon == ("total_steps" if name == "make" else "")


def test_a_first_step_without_end_is_an_error(folder, tiny_suite):
    (folder / "odd.py").write_text(ODD)
    suite = with_optimizer(tiny_suite, "odd:Hangs")
    with (
        ProcessExecutor([DeviceSlot()], preload=MODULES, call_limit=3.0) as executor,
        pytest.raises(UsageError, match=r"optimizer_and_seconds of Own: no end after 3 s(.|\n)*in step"),
    ):
        run_preflight(suite, DeviceSlot(), executor.call)


def test_an_argument_total_steps_gets_the_horizon(folder, tiny_suite, executor):
    (folder / "odd.py").write_text(ODD)
    options = {"a horizon": {}, "a given one": {"total_steps": 7}}
    pairs = product(("Horizon", "HandsOn"), options.items())
    plans = {f"{name} with {what}": OptimizerPlan(f"odd:{name}", of_each) for name, (what, of_each) in pairs}
    suite = replace(tiny_suite, optimizers=plans, reference=next(iter(plans)))
    study = run_preflight(suite, DeviceSlot(), executor.call).study
    plan = tiny_suite.arenas["vit"]
    for name in plans:
        specs = [trial_spec(study, "vit", name, stage, 1e-3, 1) for stage in ("sweep", "final")]
        horizons = [spec.optimizer.options["total_steps"] for spec in specs]
        assert horizons == ([7, 7] if "given" in name else [plan.sweep_steps, plan.steps]), name


def test_a_slow_arena_is_measured_in_part_and_a_message_says_so(tiny_suite, monkeypatch):
    """The measured step has fewer examples; all but the optimizer's part is scaled to the batch."""
    scales = []
    said = []
    timed_step = Trainer.timed_step

    def timed(trainer, scale):
        scales.append((trainer.spec.arena.batch_size, scale))
        return timed_step(trainer, scale)

    monkeypatch.setattr(Trainer, "timed_step", timed)
    monkeypatch.setattr("fairbench.runner.preflight.QUIET_SECONDS", 0.0)
    run_preflight(tiny_suite, DeviceSlot(), here, said.append)
    batch_size = tiny_suite.arenas["vit"].batch_size
    assert set(scales) == {(batch_size, 1.0)}
    names = list(tiny_suite.optimizers)
    progress = [f"measuring {name}, optimizer {i} of {len(names)}" for i, name in enumerate(names, 1)]
    assert said == [f"measuring vit with {len(names)} optimizers", *progress]

    scales.clear()
    monkeypatch.setattr("fairbench.runner.trainings.builtin_loop.PROBE_SECONDS", {"evaluation": 0.0, "steps": 0.0})
    run_preflight(tiny_suite, DeviceSlot(), here, said.append)
    assert set(scales) == {(2, batch_size / 2)}
    note = f"slow here: a step is measured with fewer examples and scaled to the batch: vit 2 of {batch_size}"
    assert note in said

    trainer = Trainer(trial_spec(study_of(tiny_suite), "vit", names[0], "final", 1e-3, 1), DeviceSlot())
    monkeypatch.setattr(Trainer, "timed_step", timed_step)

    def step():
        trainer.clock.seconds["step"] += 4.0
        now[0] += 10.0
        return torch.zeros(())

    now = [0.0]
    monkeypatch.setattr(trainer, "train_one_step", step)
    monkeypatch.setattr("fairbench.training.trainer.work_seconds", lambda device: now[0])
    assert trainer.timed_step(8.0) == 4.0 + 8 * 6.0


def test_a_step_that_waits_for_the_processor_is_not_measured_as_longer(tiny_suite, monkeypatch):
    """As while another study runs: a step of milliseconds may then wait many times as long as it works."""
    trainer = Trainer(trial_spec(study_of(tiny_suite), "vit", "AdamW", "final", 1e-3, 1), DeviceSlot())
    train_one_step = trainer.train_one_step

    def waiting_step():
        time.sleep(0.5)
        return train_one_step()

    monkeypatch.setattr(trainer, "train_one_step", waiting_step)
    trainer.timed_step()  # the first step makes the state of the optimizer
    assert trainer.timed_step() < 0.25


def test_arenas_that_differ_in_their_length_alone_are_measured_once(tiny_suite, monkeypatch):
    timed = []
    plan = tiny_suite.arenas["vit"]
    timed_step = Trainer.timed_step
    arm = attrgetter("spec.arena.name", "spec.optimizer.name")
    monkeypatch.setattr(Trainer, "timed_step", lambda x, scale: timed.append(arm(x)) or timed_step(x, scale))
    shock = {"kind": "loss", "at": [0.5], "steps": 1, "factor": 2.0}
    others = {"long": replace(plan, task="vit", steps=2 * plan.steps, schedule="linear"),
              "wide": replace(plan, task="vit", model={**plan.model, "hidden_size": 48}),
              "shaken": replace(plan, task="vit", shock=shock),
              "heavy": replace(plan, task="vit")}  # fmt: skip
    adamw = replace(tiny_suite.optimizers["AdamW"], arenas={"heavy": {"weight_decay": 0.1}})
    optimizers = {**tiny_suite.optimizers, "AdamW": adamw}
    suite = replace(tiny_suite, arenas={"vit": plan, **others}, optimizers=optimizers)
    preflight = run_preflight(suite, DeviceSlot(), here)
    assert set(timed) == {*product(("vit", "wide", "shaken"), optimizers), ("heavy", "AdamW"), ("long", "PsiLogic")}
    assert preflight.step_seconds.keys() == preflight.evaluation_seconds.keys() == {"vit", *others}
    arenas = preflight.study.arenas
    assert arenas["long"] == arenas["vit"] != arenas["wide"]


def test_the_initial_weights_of_each_seed_are_hashed(tiny_suite):
    starts = study_of(tiny_suite).arenas["vit"].starts
    assert starts.keys() == {"0", "1", "2"}
    assert len(set(starts.values())) == 3


def test_trials_that_do_not_fit_on_a_gpu_together_are_refused(tiny_suite, tmp_path, monkeypatch):
    """By the memory of their first steps, and that of CUDA in each process; the GPU is simulated."""
    without = run_preflight(tiny_suite, DeviceSlot(), here)
    assert (without.gpu_bytes, without.gpu_free_bytes) == ({"vit": 0}, 0)
    check_gpu_memory(without, 99)
    memory = 1_400_000_000, 5_500_000_000, 8_000_000_000
    monkeypatch.setattr("fairbench.training.device_memory.gpu_memory", lambda device: memory)
    preflight = run_preflight(tiny_suite, DeviceSlot(), here)
    assert (preflight.gpu_bytes, preflight.gpu_free_bytes) == ({"vit": 1_400_000_000}, 5_500_000_000)
    check_gpu_memory(preflight, 3)
    costs = {
        name: {"vit": replace(cost["vit"], gpu_free_bytes=1_000_000_000)} for name, cost in preflight.costs.items()
    }
    check_gpu_memory(replace(preflight, costs=costs), 1)

    monkeypatch.setattr("fairbench.runner.preflight.run_preflight", lambda *arguments: preflight)
    complaint = "--trials-per-gpu 4: a trial of arena vit takes 2.0 GB of a GPU with 6.1 GB free; at most 3 fit"
    options = RunOptions([DeviceSlot()] * 4)
    with pytest.raises(UsageError, match=complaint):
        run_study(target_in(tmp_path / "out", tiny_suite), options, [])
    assert not (tmp_path / "out" / "config.json").exists()
    assert not list((tmp_path / "out" / "trials").iterdir())

"""A trial that was interrupted ends as if it never was, whatever interrupted it; real signals, real kills."""

import itertools
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import here, study_of

from fairbench.arenas.vit import ViT
from fairbench.common.errors import Paused
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner import run_study as studies
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.preflight import run_preflight
from fairbench.study.plan import Study, trial_spec
from fairbench.study.records import Record
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite
from fairbench.suites.schema import Suite
from fairbench.training import checkpoint as checkpoints
from fairbench.training.checkpoint import Checkpoint
from fairbench.training.place import Checkpointing, Place
from fairbench.training.trial import trial

pytestmark = pytest.mark.xdist_group("servers")  # one worker has the server of processes

PRELOAD = [*studies.PRELOAD, "fairbench.arenas.vit"]
OWN = """
import os, signal, time, torch


class Counts(torch.optim.SGD):
    '''What it does depends on what it counts on itself.'''

    steps, seen = 0, ()

    def step(self, closure=None):
        self.steps += 1
        self.seen = (*self.seen, self.steps)
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.mul_(1 + self.steps % 3 + len(self.seen))
        return super().step(closure)


class Doubles(torch.optim.SGD):
    '''Its state has twice the digits of the weights.'''

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                sum = self.state[p].setdefault("sum", torch.zeros_like(p, dtype=torch.float64))
                p.grad.copy_(sum.add_(p.grad.double() / 3))
        return super().step(closure)


class Draws(torch.optim.SGD):
    '''Draws from everybody's generators.'''

    def step(self, closure=None):
        import random, numpy
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.mul_(random.random() + numpy.random.rand()).add_(torch.randn_like(p))
        return super().step(closure)


class Slow(torch.optim.SGD):
    '''A step takes a while, and no further one ends while there is a file.'''

    steps = 0

    def step(self, closure=None):
        self.steps += 1
        time.sleep(0.01)
        while self.steps > 2 and os.path.exists("hold"):
            time.sleep(0.01)
        return super().step(closure)


class Hidden(torch.optim.SGD):
    '''Keeps a momentum where no state_dict finds it.'''

    def __init__(self, params, lr=1e-3):
        super().__init__(params, lr)
        self.memory = {}

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.copy_(self.memory.setdefault(p, torch.zeros_like(p)).lerp_(p.grad, 0.5))
        return super().step(closure)


class Unwatchable(torch.optim.SGD):
    '''Its mechanism is watched, and the watch cannot be saved.'''

    def mechanism(self, named_parameters):
        class Watch:
            def quantities(self):
                return {}
        return Watch()


def out_of_memory():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 2 GiB.")


class NeedsMore(torch.optim.SGD):
    def step(self, closure=None):
        out_of_memory()
"""
EXACT = ("result", "status", "id", "spec")


@pytest.fixture
def own(tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the own optimizers, as working directory."""
    (tiny_file.parent / "own_ones.py").write_text(OWN)
    monkeypatch.chdir(tiny_file.parent)
    monkeypatch.syspath_prepend(tiny_file.parent)
    monkeypatch.delitem(sys.modules, "own_ones", raising=False)
    return tiny_file.parent


def arm(suite: Suite, name: str) -> TrialSpec:
    """A final trial of an optimizer: of an own one, of one that has a name, or of a factory."""
    factory = name if ":" in name else f"own_ones:{name}" if f"class {name}(" in OWN else ""
    options = {"max_iter": 3} if name.endswith("LBFGS") else {}
    suite = replace(suite, optimizers={"it": OptimizerPlan(factory, options)} if factory else {name: OptimizerPlan()})
    suite = replace(suite, reference=next(iter(suite.optimizers)))
    the_study = study_of(suite)
    resolved = the_study.optimizers[suite.reference]
    rate = resolved.lr or 1e-3 * resolved.lr_scale
    return short(trial_spec(the_study, "vit", suite.reference, "final", rate, 1))


def short(spec: TrialSpec, **options: Any) -> TrialSpec:
    """A trial of 12 steps; windows of 5 steps, evaluations after 6 and 12."""
    training = {"steps": 12, "log_every": 5, "evaluations": 2, "warmup_steps": 3, **options}
    return replace(spec, training=replace(spec.training, **training))


def terminate(*steps: int) -> Callable[[int, float], None]:
    """Progress that has this process sent SIGTERM after these steps."""
    return lambda step, loss: signal.raise_signal(signal.SIGTERM) if step in steps else None


def interrupted(spec: TrialSpec, folder: Path, *steps: int) -> Record:
    """The record of a trial that was asked to pause after these steps, in a process that did other things between."""
    keeping = Checkpointing(str(folder), 0)
    for step in steps:
        with pytest.raises(Paused) as pause:
            trial(spec, Place(), terminate(step), Checkpoint(spec, Place(), keeping))
        assert str(pause.value) == ""
        assert [path.name for path in folder.iterdir()] == [f"{spec.id}.pt"]
        torch.manual_seed(99)
        np.random.seed(99)
        random.seed(99)
    return trial(spec, Place(), checkpoint=Checkpoint(spec, Place(), keeping))


def assert_same(found: Record, undisturbed: Record) -> None:
    assert {part: found[part] for part in EXACT} == {part: undisturbed[part] for part in EXACT}


IMAGES = {"source": "digits", "crop_padding": 1, "flip": True}
ARENAS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gpt": ({"source": "stdlib", "context": 16, "evaluated": 16}, {"hidden_size": 8, "layers": 1, "heads": 1}),
    "vit": (IMAGES, {"hidden_size": 8, "layers": 1, "heads": 1, "patch_size": 4}),
    "resnet": (IMAGES, {"width": 2}),
    "ddpm": (IMAGES, {"channels": [4, 4], "norm_groups": 4, "attention_levels": []}),
}
"""The arenas of mini in small: data and model."""


def small(arena: str) -> TrialSpec:
    """A trial of PsiLogic in an arena."""
    suite, (data, model) = load_suite("mini"), ARENAS[arena]
    arenas = {arena: replace(suite.arenas[arena], data=data, model=model, batch_size=8)}
    suite = replace(suite, arenas=arenas, optimizers={"PsiLogic": suite.optimizers["PsiLogic"]})
    suite = replace(suite, final=replace(suite.final, seeds=[1]))
    return trial_spec(study_of(suite), arena, "PsiLogic", "final", 1e-2, 1)


SHOCKS = {
    "gpt": {"kind": "labels", "at": [0.3, 0.7]},
    "vit": {"kind": "heavy-tail", "at": [0.2], "steps": 8},
    "resnet": {"kind": "gradient", "at": [0.3, 0.7]},
    "ddpm": {},
}


@pytest.mark.parametrize("arena", SHOCKS)
def test_a_trial_ends_as_if_never_interrupted(arena: str, tmp_path: Path) -> None:
    """With augmentation, noise, shocks that draw, a watched mechanism; before an evaluation and after the last step."""
    spec = short(small(arena), shock=SHOCKS[arena], log_every=3)
    undisturbed = trial(spec)
    assert undisturbed["result"]["mechanism"]["totals"]["tensor_steps"] > 0
    found = interrupted(spec, tmp_path, 6, 12)
    assert_same(found, undisturbed)
    assert found["cost"]["seconds"]["total"] > found["cost"]["seconds"]["step"] > 0
    assert found["cost"]["peak_memory_bytes"] > 1e7


@pytest.mark.soak
@pytest.mark.parametrize("arena", ["gpt", "vit"])
def test_a_compiled_trial_ends_as_if_never_interrupted(arena: str, tmp_path: Path) -> None:
    spec = short(small(arena), compile=True, log_every=3)
    undisturbed = trial(spec)
    torch._dynamo.reset()  # a resumed process compiles again
    assert_same(interrupted(spec, tmp_path, 6), undisturbed)


def test_what_dropout_draws_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = short(small("vit"))
    plain = trial(spec)
    build = ViT.build_model

    def with_dropout(*args: Any, **options: Any) -> torch.nn.Module:
        model = build(*args, **options)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.3
        return model

    monkeypatch.setattr(ViT, "build_model", with_dropout)
    undisturbed = trial(spec)
    assert undisturbed["result"] != plain["result"]
    assert_same(interrupted(spec, tmp_path, 5), undisturbed)


NEEDY = ("torch.optim:LBFGS", "SophiaH", "ScheduleFree", "AdamHD", "Kron", "fairbench.optimizers.controls:SlowNormClip")


@pytest.mark.parametrize("name", [*NEEDY, "Counts", "Doubles"])
def test_whatever_an_optimizer_remembers(tiny_suite: Suite, own: Path, name: str, tmp_path: Path) -> None:
    """Closures, graphs of gradients, modes, a rate of its own, counters on itself, other dtypes."""
    spec = arm(tiny_suite, name)
    assert_same(interrupted(spec, tmp_path / "kept", 5), trial(spec))


def test_everybodys_generators_go_on(tiny_suite: Suite, own: Path, tmp_path: Path) -> None:
    spec = arm(tiny_suite, "Draws")
    for seed in (random.seed, np.random.seed):
        seed(3)
    undisturbed = trial(spec)
    for seed in (random.seed, np.random.seed):
        seed(3)
    assert_same(interrupted(spec, tmp_path / "kept", 5), undisturbed)


@pytest.fixture
def spec(tiny_study: Study) -> TrialSpec:
    return short(trial_spec(tiny_study, "vit", "AdamW", "final", 1e-3, 1))


def kept(spec: TrialSpec, folder: Path) -> Path:
    """The checkpoint of a trial that was interrupted after 5 steps."""
    with pytest.raises(Paused):
        trial(spec, Place(), terminate(5), Checkpoint(spec, Place(), Checkpointing(str(folder), 0)))
    return folder / f"{spec.id}.pt"


def went_on(spec: TrialSpec, folder: Path) -> tuple[Record, list[int]]:
    """The record of a trial, and the steps that it told of: none before the checkpoint that it went on from."""
    told: list[int] = []
    keeping = Checkpoint(spec, Place(), Checkpointing(str(folder), 0))
    return trial(spec, Place(), lambda step, loss: told.append(step), keeping), told


def test_a_damaged_checkpoint_is_not_continued(
    spec: TrialSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, undisturbed = kept(spec, tmp_path), trial(spec)
    whole = path.read_bytes()
    assert went_on(spec, tmp_path)[1] == [10, 12]
    assert capsys.readouterr().out == ""
    at = whole.index(torch.load(path)["state"]["clipped"].numpy().tobytes())  # torch would not notice
    flipped = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in (at, len(whole) // 5, len(whole) // 2)]
    for damaged in (*flipped, whole[: len(whole) // 2], b""):
        path.write_bytes(damaged)
        record, told = went_on(spec, tmp_path)
        assert_same(record, undisturbed)
        assert told == [5, 10, 12]
        assert "the trial restarts; its checkpoint" in capsys.readouterr().out


def test_a_checkpoint_of_other_ground_is_not_continued(
    spec: TrialSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(spec, tmp_path)
    here_now = checkpoints.environment("cpu")
    monkeypatch.setattr(checkpoints, "environment", lambda device: {**here_now, "torch": "9.9"})
    assert went_on(spec, tmp_path)[1] == [5, 10, 12]
    assert f"torch {torch.__version__!r} and not '9.9'" in capsys.readouterr().out


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can grow beyond a few bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_the_old_checkpoint_and_the_trial_goes_on(
    spec: TrialSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, undisturbed = kept(spec, tmp_path), trial(spec)
    old = path.read_bytes()
    (tmp_path / f".{spec.id}.pt.killed.tmp").write_bytes(b"half")
    with full_disk():
        record = trial(spec, Place(), checkpoint=Checkpoint(spec, Place(), Checkpointing(str(tmp_path), 1e-9)))
    assert_same(record, undisturbed)
    assert path.read_bytes() == old
    assert [each.name for each in tmp_path.iterdir() if each.suffix in (".pt", ".tmp")] == [path.name]
    assert capsys.readouterr().out.count("the trial continues without a new checkpoint: cannot write") == 1


def test_one_is_written_every_so_many_seconds(spec: TrialSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, written = itertools.count(), list[int]()
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: next(seconds))  # each step asks once
    monkeypatch.setattr(checkpoints, "write_state", lambda file, about, state: written.append(state["done"]))
    trial(spec, Place(), checkpoint=Checkpoint(spec, Place(), Checkpointing(str(tmp_path), 4)))
    assert written == [4, 8, 12]


REASONS = {
    "Hidden": "it keeps memory on itself and not in its state",
    "Unwatchable": "its state cannot be saved: AttributeError: 'Watch' object has no attribute 'state_dict'",
    "Counts": "",
}


def test_the_preflight_names_trials_that_would_restart(tiny_suite: Suite, own: Path) -> None:
    plans = {name: OptimizerPlan(f"own_ones:{name}") for name in REASONS}
    preflight = run_preflight(replace(tiny_suite, optimizers=plans, reference="Counts"), Place(), here)
    assert {name: arenas["vit"] for name, arenas in preflight.restart_reasons.items()} == REASONS
    assert preflight.restart_notice().splitlines() == [
        "these trials restart when they are interrupted:",
        *(f"  {name} (vit): {why}" for name, why in REASONS.items() if why),
    ]
    finals = {name: trial_spec(preflight.study, "vit", name, "final", 1e-3, 1) for name in plans}
    assert [name for name, spec in finals.items() if preflight.resumes(spec)] == ["Counts"]


class Watched(ProcessExecutor):
    """An executor whose trials' processes can be killed once they have taken some steps."""

    def __init__(self, folder: Path, places: int = 1, **options: Any) -> None:
        self.told: dict[str, list[int]] = {}
        here = [Place(alone=places == 1)] * places
        super().__init__(here, self._told, PRELOAD, checkpointing=Checkpointing(str(folder), 0), **options)

    def _told(self, spec: TrialSpec, step: int, loss: float) -> None:
        self.told.setdefault(spec.id, []).append(step)

    def until_told(self) -> list[int]:
        """Wait until every trial has told of steps; their processes."""
        while self._running.keys() - self.told.keys():
            assert self.collect(0.05) == []
        return [process._process.pid for _, _, process in self._running.values()]


def finish(folder: Path, *specs: TrialSpec) -> tuple[dict[str, Record], dict[str, list[int]]]:
    """The records of trials that go on, and the steps that they told of."""
    with Watched(folder, len(specs)) as executor:
        for spec in specs:
            executor.submit(spec, 60.0)
        records: dict[str, Record] = {}
        while len(records) < len(specs):
            records |= {record["id"]: record for record in executor.collect()}
        return records, executor.told


@pytest.fixture
def slow(tiny_suite: Suite, own: Path) -> TrialSpec:
    """A trial that takes a while and reports every step."""
    return short(arm(tiny_suite, "Slow"), steps=100, log_every=1)


def test_all_trials_pause_when_the_executor_is_asked_to(slow: TrialSpec, tmp_path: Path) -> None:
    """Those that are in the middle, and one that has only begun to load; a trial that saves nothing stops at once."""
    folder = tmp_path / "kept"
    specs = [slow, replace(slow, seed=2)]
    Path("hold").touch()
    with Watched(folder, 4) as executor:
        for each in specs:
            executor.submit(each, 60.0)
        executor.submit(unsaved := replace(slow, seed=3), 60.0, resumes=False)
        executor.until_told()
        executor.submit(loading := replace(slow, seed=4), 60.0)
        Path("hold").unlink()
        ended = {record["id"]: record for record in executor.pause()}
        assert not executor._running
    assert {(record["status"], record["unsaved"]) for record in ended.values()} == {("paused", "")}
    assert len(ended) == 4
    assert {path.stem for path in folder.iterdir()} - {loading.id} == {each.id for each in specs}
    assert not (folder / f"{unsaved.id}.pt").exists()
    records, told = finish(folder, *specs)
    for each in specs:
        assert told[each.id][0] > 1
        assert_same(records[each.id], trial(each))


def test_a_signal_to_everybody_ends_nothing_but_trials_in_order(slow: TrialSpec, tmp_path: Path) -> None:
    """SIGUSR1 and SIGTERM, as clusters send them, to the server and to all it has forked; it can fork on."""
    from multiprocessing import forkserver

    Path("hold").touch()
    with Watched(tmp_path / "kept") as executor:
        executor.submit(slow, 60.0)
        pids = executor.until_told()
        server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        for number in (signal.SIGUSR1, signal.SIGTERM):
            for pid in (server, *pids):
                os.kill(pid, number)
        Path("hold").unlink()
        (record,) = executor.collect(30.0)
        assert (record["status"], record["unsaved"]) == ("paused", "")
        executor.submit(slow, 60.0)
        executor.until_told()
        assert forkserver._forkserver._forkserver_pid == server  # type: ignore[attr-defined]


def test_a_trial_without_gpu_memory_says_what_it_needs(slow: TrialSpec, tmp_path: Path) -> None:
    needs_more = replace(slow, optimizer=replace(slow.optimizer, name="NeedsMore", factory="own_ones:NeedsMore"))
    with Watched(tmp_path) as executor:
        executor.submit(needs_more, 60.0)
        (record,) = executor.collect()
    assert record["error"]["type"] == "OutOfMemory"
    for part in ("Tried to allocate 3.00 GiB", "--trials-per-gpu", "smaller batch_size"):
        assert part in record["error"]["message"]


DRIVER = """
import sys
from fairbench.common.errors import UsageError
from fairbench.training.place import Place
from fairbench.runner.executors.local import ProcessExecutor
try:
    with ProcessExecutor([Place()], print, sys.argv[1:]) as executor:
        executor.call(len, "abc")
except UsageError as error:
    sys.exit(str(error))
"""


@pytest.mark.parametrize("folder", ["short", "long" * 40])
def test_why_no_process_starts(folder: str, tmp_path: Path) -> None:
    """A server that is killed while it loads, and a socket whose path is too long."""
    (tmp_path / "killed.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    (tmp_path / folder).mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    environment |= {"TMPDIR": str(tmp_path / folder)} if folder != "short" else {}
    command = [sys.executable, "-c", DRIVER, *(["killed"] if folder == "short" else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert ("ended while it loaded the libraries" in done.stderr) == (folder == "short")
    assert ("TMPDIR" in done.stderr) == (folder != "short")
    assert "Traceback" not in done.stderr

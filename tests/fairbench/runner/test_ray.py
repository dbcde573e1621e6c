"""Trials on a Ray cluster give the same records as elsewhere, even if nodes are lost or join."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import pytest
from disturbed import tables
from tiny import TINY, run_here, study_of, write_tiny

from fairbench.cli.main import main
from fairbench.common.errors import ProgramError, UsageError
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.devices import RunOptions
from fairbench.runner.executors.executor import PausedTrial
from fairbench.runner.preload import PRELOAD
from fairbench.runner.trainings.before_start import checked_programs
from fairbench.study.planned_trial import trial_spec
from fairbench.study.record import plain_values
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.training import environment
from fairbench.training.determinism import one_thread
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trial import trial

MISSING = pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed: pip install '.[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray"), MISSING]  # only the worker of this group imports Ray
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
ALONE = {"GIT_DIR": os.devnull, "RAY_AUTH_MODE": "disabled"}  # the executor sets Ray's other variables

WAITS = """
import os, time, torch
from pathlib import Path
from types import ModuleType


class Waits(torch.optim.SGD):
    steps = 0

    def step(self, closure=None):
        self.steps += 1
        while self.steps == 6 and Path("hold").exists():  # after the preflight's
            Path(f"waits-{os.getpid()}").touch()
            time.sleep(0.1)
        if Path("slow").exists():
            time.sleep(0.05)
        return super().step(closure)
"""


def begun():
    """A cluster of its head alone."""
    from ray.cluster_utils import Cluster

    return Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one core."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ALONE.items():
            patch.setenv(name, value)
        cluster = begun()
        cluster.add_node(**NODE)
        yield cluster
        cluster.shutdown()


def trials_of(node):
    """The processes of trials on a node: those that its process servers have forked."""
    import psutil

    (raylet,) = node.all_processes["raylet"]
    workers = psutil.Process(raylet.process.pid).children()
    return [trial for worker in workers for server in worker.children() for trial in server.children()]


def wait_for(condition):
    until = time.monotonic() + 240.0
    while not (value := condition()):
        assert time.monotonic() < until
        time.sleep(0.3)
    return value


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A folder with a study that ran without Ray; one of its optimizers obeys the files `hold` and `slow`."""
    folder = tmp_path_factory.mktemp("held")
    write_tiny(folder, TINY.replace("budget = 3", ""))
    (folder / "own_optimizers.py").write_text(WAITS)
    with pytest.MonkeyPatch.context() as patch, one_thread():
        run_here(patch, folder)
        assert main([*RUN, "--output-dir", "here", "--workers", "1"]) == 0
    return folder


RUN = ["run", "--suite", "tiny.toml", "--optimizers", "AdamW,own_optimizers:Waits", "--reference", "Waits"]


def run(folder, *words):
    command = [sys.executable, "-m", "fairbench", *RUN, *words]
    output = (folder / f"{words[1]}.txt").open("w")
    return subprocess.Popen(command, cwd=folder, env={**os.environ, **ALONE}, stdout=output, stderr=output)


@pytest.mark.soak
def test_a_lost_node_and_a_new_one_change_no_table(cluster, held):
    (held / "hold").touch()
    driver = run(held, "--output-dir", "ray", "--ray", cluster.address)
    lost = cluster.list_all_nodes()[1]

    def waiting(node):
        assert driver.poll() is None, (held / "ray.txt").read_text()
        return [trial for trial in trials_of(node) if (held / f"waits-{trial.pid}").exists()]

    (trial,) = wait_for(lambda: waiting(lost))
    cluster.remove_node(lost, allow_graceful=False)
    trial.wait(30)
    joined = cluster.add_node(**NODE)
    wait_for(lambda: waiting(joined))
    (held / "hold").unlink()
    assert driver.wait() == 0, (held / "ray.txt").read_text()
    assert tables(held / "ray") == tables(held / "here")


@pytest.fixture
def study(held, monkeypatch):
    """The study of that folder with slow steps, in the environment of the cluster."""
    monkeypatch.chdir(held)
    monkeypatch.setattr(environment, "LOADED_REVISION", "none")
    environment.environment_of_program.cache_clear()
    waits = {"Waits": OptimizerPlan(factory="own_optimizers:Waits")}
    study = study_of(replace(load_suite("tiny.toml"), optimizers=waits, reference="Waits", controls=[]))
    (held / "slow").touch()
    yield study
    (held / "slow").unlink()


def executor_on(address, observer, checkpoints=""):
    from fairbench.runner.executors.ray.executor import RayExecutor

    return RayExecutor(RunOptions([DeviceSlot(checkpoints=checkpoints)], ray=address), observer, PRELOAD)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:70000", "nonsense", "ray://127.0.0.1:10001"])
def test_an_address_without_a_cluster_is_an_error(address):
    with pytest.raises(UsageError, match=f"--ray {address}: .*give HOST:PORT"), executor_on(address, Mock()):
        pass


LOST = """
import os, psutil, torch
from pathlib import Path
from types import ModuleType


class Lost(torch.optim.SGD):
    def step(self, closure=None):
        if Path("lose").exists():
            Path("lose").unlink()
            psutil.Process(os.getppid()).parent().kill()  # Ray's worker, whose process server has forked this one
        return super().step(closure)
"""
PRIVATE = """
import json
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock
from fairbench.runner.devices import RunOptions
from fairbench.runner.executors.registry import make_executor
from fairbench.runner.preload import PRELOAD
from fairbench.study.record import plain_values
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot

options = RunOptions([DeviceSlot(checkpoints="private")], allow_mixed=True, ray="local")
with make_executor(options.executor, options, Mock(), PRELOAD, limit=600.0) as executor:
    import psutil, ray
    from ray._raylet import AuthenticationMode, get_authentication_mode

    assert get_authentication_mode() == AuthenticationMode.TOKEN
    driver, sockets = psutil.Process(), []
    for process in [driver, *driver.children(recursive=True)]:
        for socket in process.net_connections("inet"):
            if socket.status == "LISTEN":
                sockets.append((process.name(), socket.laddr.ip.removeprefix("::ffff:")))
    Path("lose").touch()
    executor.submit(TrialSpec.from_json(json.loads(Path("spec.json").read_text())), 300.0)
    (record,) = executor.collect()
Path("seen.json").write_text(json.dumps([sockets, record], default=plain_values))
"""


@pytest.mark.soak
def test_the_cluster_of_one_study_is_not_reachable_from_outside_and_repeats_a_lost_trial(tmp_path, monkeypatch):
    """Neither its head nor its node, its driver or its workers; of these one is killed."""
    write_tiny(tmp_path)
    (tmp_path / "loses_its_worker.py").write_text(LOST)
    run_here(monkeypatch, tmp_path)
    lost = {"Lost": OptimizerPlan(factory="loses_its_worker:Lost")}
    study = study_of(replace(load_suite("tiny.toml"), optimizers=lost, reference="Lost", controls=[]))
    spec = trial_spec(study, "vit", "Lost", "sweep", 0.01, 0)
    (tmp_path / "spec.json").write_text(json.dumps(spec.to_json()))
    environment = {**os.environ, **ALONE}
    done = subprocess.run(
        [sys.executable, "-c", PRIVATE], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "lose").exists()
    sockets, record = json.loads((tmp_path / "seen.json").read_text())
    assert record["status"] == "finished", record
    assert record["result"] == plain_values(trial(spec).result)
    assert {"gcs_server", "raylet"} <= {name for name, _ in sockets}
    assert {address for _, address in sockets} == {"127.0.0.1"}


@pytest.mark.soak
def test_a_paused_trial_resumes_from_its_checkpoint(cluster, study, held):
    spec = trial_spec(study, "vit", "Waits", "final", 0.01, 1)
    spec = replace(spec, training=replace(spec.training, steps=150))
    kept = str(held / "checkpoints")
    observer = Mock()
    steps = list[int]()
    observer.running = lambda spec, step, loss: steps.append(step)
    with executor_on(cluster.address, observer, kept) as executor:
        executor.submit(spec, 300.0)
        assert wait_for(lambda: executor.collect(1.0) or steps) is steps
        (record,) = executor.pause()
    assert record == PausedTrial(spec.id, "")
    assert [path.name for path in Path(kept).iterdir()] == [f"{spec.id}.pt"]
    before = len(steps)
    with executor_on(cluster.address, observer, kept) as executor:
        executor.submit(spec, 300.0)
        (record,) = executor.collect()
    assert record.status == "finished"
    assert record.result == trial(spec).result
    assert all(step > steps[before - 1] for step in steps[before:])
    observer.say.assert_not_called()


def test_a_fault_of_a_program_keeps_its_class_in_the_reply_of_a_node(monkeypatch):
    from fairbench.runner.executors.ray import node

    main_module = ModuleType("__main__")
    main_module.__file__ = ""  # a node removes it
    monkeypatch.setitem(sys.modules, "__main__", main_module)
    monkeypatch.setattr(node, "_reply", dict)  # without the id of a node
    suite = load_suite("program", Overrides(settings={"arenas.program.model.program": "python missing.py"}))
    slot = DeviceSlot(alone=False)
    reply = node.call_on_node(node.Work(slot, PRELOAD), 100.0, checked_programs, (suite, slot))
    assert type(reply["usage"]) is ProgramError
    assert "names missing.py" in str(reply["usage"])


@pytest.mark.soak
def test_timing_trials_run_on_one_node(cluster, study):
    specs = [trial_spec(study, "vit", "Waits", "timing", 0.01, seed) for seed in (1, 2, 3)]
    nodes = set()
    records = []
    with executor_on(cluster.address, Mock()) as executor:
        for spec in specs:
            executor.submit(spec, 300.0)
        while len(records) < len(specs):
            records += executor.collect(0.2)
            nodes |= {node.node_id for node in cluster.list_all_nodes() if trials_of(node)}
    assert {record.status for record in records} == {"finished"}
    assert len(nodes) == 1


@pytest.mark.soak
@pytest.mark.parametrize("stopped", [False, True])
def test_a_lost_head_ends_the_driver_and_loses_no_record(cluster, held, stopped):
    """Also if the driver is asked to stop meanwhile, and cannot reach its trials."""
    lost = f"lost-{stopped}"
    other = begun()
    (held / "slow").touch()
    driver = run(held, "--output-dir", lost, "--ray", other.address)
    wait_for(lambda: driver.poll() is not None or list(held.glob(f"{lost}/trials/*.json")))
    for process in [info.process for infos in other.head_node.all_processes.values() for info in infos]:
        process.kill()
        process.wait()
    if stopped:
        driver.terminate()
    assert driver.wait(120) == 2
    other.shutdown()
    output = (held / f"{lost}.txt").read_text()
    assert "the head of the cluster has not answered" in output
    assert "Traceback" not in output
    assert not list(held.glob(f"{lost}/claims/*"))

    def records():
        return {path.name: path.read_bytes() for path in held.glob(f"{lost}/trials/*.json")}

    kept = records()
    (held / "slow").unlink()
    assert run(held, "--output-dir", lost, "--workers", "2").wait() == 0
    assert kept
    assert kept.items() <= records().items()
    assert tables(held / lost) == tables(held / "here")


@pytest.mark.soak
def test_a_node_with_another_revision_gets_no_trials(cluster, study, monkeypatch, tmp_path):
    """The other nodes run the trials that it rejected."""
    for node in cluster.list_all_nodes()[1:]:
        cluster.remove_node(node, allow_graceful=False)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x"]
    monkeypatch.delenv("GIT_DIR")
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "another revision"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    other = cluster.add_node(**NODE)
    monkeypatch.setenv("GIT_DIR", os.devnull)
    left = [trial_spec(study, "vit", "Waits", "sweep", lr, 0) for lr in (0.001, 0.002, 0.003, 0.004)]
    observer = Mock()
    records = []
    with executor_on(cluster.address, observer) as executor:
        while len(records) < 4:
            while left and executor.has_free_slot():
                executor.submit(left.pop(), 300.0)
            records += executor.collect()
    assert {record.status for record in records} == {"finished"}
    assert len({str(record.environment) for record in records}) == 1
    (message,) = observer.say.call_args.args
    observer.say.assert_called_once()
    assert "gets no trials" in message
    assert "git:" in message
    cluster.remove_node(other)

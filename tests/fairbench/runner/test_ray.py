"""Trials on a Ray cluster: the same records as anywhere, whatever becomes of its nodes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny import study_of, write_tiny

from fairbench.common.errors import UsageError
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.run_study import PRELOAD
from fairbench.study.plan import Study, trial_spec
from fairbench.suites.loader import load_suite
from fairbench.training import environment
from fairbench.training.place import Checkpointing, Place
from fairbench.training.trial import trial

pytest.importorskip("ray", reason="Ray is not installed: pip install 'psilogic[ray]'")
import psutil
from ray.cluster_utils import Cluster

from fairbench.runner.executors.ray.executor import RayExecutor

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
# It is not announced, and its workers have the same priority as the tests, which would starve them otherwise.
ALONE = {
    "GIT_DIR": os.devnull,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_worker_niceness": "0",
}

WAITS = """
import os, time, torch
from pathlib import Path


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


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes of one core."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ALONE.items():
            patch.setenv(name, value)
        cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        cluster.add_node(**NODE)
        yield cluster
        cluster.shutdown()


def trials_of(node: Any) -> list[psutil.Process]:
    """The processes of trials on a node: what servers of processes have forked there."""
    (raylet,) = node.all_processes["raylet"]
    workers = psutil.Process(raylet.process.pid).children()
    return [trial for worker in workers for server in worker.children() for trial in server.children()]


def wait_for(what: Callable[[], Any], seen: Callable[[], object] = str, seconds: float = 240.0) -> Any:
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, seen()
        time.sleep(0.3)
    return found


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study that has run here, one of whose optimizers heeds the files `hold` and `slow`."""
    folder = tmp_path_factory.mktemp("held")
    write_tiny(folder)
    (folder / "own_optimizers.py").write_text(WAITS)
    assert run(folder, "--output-dir", "here", "--workers", "2").wait() == 0
    return folder


def run(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    chosen = ["--suite", "tiny.toml", "--optimizers", "AdamW,own_optimizers:Waits", "--reference", "Waits"]
    command = [sys.executable, "-m", "fairbench", "run", *chosen, *words]
    said = (folder / f"{words[1]}.txt").open("w")
    return subprocess.Popen(command, cwd=folder, env={**os.environ, **ALONE}, stdout=said, stderr=said)


def tables(output: Path) -> dict[str, bytes]:
    names = ("summary.csv", "aggregate.csv", "significance.csv", "lr_sweep.csv", "steps.csv", "mechanism.csv")
    return {name: (output / name).read_bytes() for name in names}


def test_a_node_that_is_lost_and_one_that_joins_change_no_table(cluster: Cluster, held: Path) -> None:
    (held / "hold").touch()
    driver = run(held, "--output-dir", "ray", "--ray", cluster.address)
    lost = cluster.list_all_nodes()[1]

    def waiting(node: Any) -> list[psutil.Process]:
        assert driver.poll() is None, (held / "ray.txt").read_text()
        return [trial for trial in trials_of(node) if (held / f"waits-{trial.pid}").exists()]

    def seen() -> str:
        there = {node.node_id: trials_of(node) for node in cluster.list_all_nodes()}
        return f"{there}\n{sorted(path.name for path in held.iterdir())}\n{(held / 'ray.txt').read_text()}"

    (trial,) = wait_for(lambda: waiting(lost), seen)
    cluster.remove_node(lost, allow_graceful=False)
    trial.wait(30)
    joined = cluster.add_node(**NODE)
    wait_for(lambda: waiting(joined), seen)
    (held / "hold").unlink()
    assert driver.wait() == 0, (held / "ray.txt").read_text()
    assert tables(held / "ray") == tables(held / "here")


@pytest.fixture
def study(held: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """The study of that folder, with longer trials."""
    monkeypatch.chdir(held)
    monkeypatch.setattr(environment, "LOADED_REVISION", "none")  # as that of the cluster
    environment.environment.cache_clear()
    suite = load_suite("tiny.toml")
    waits = {"Waits": OptimizerPlan(factory="own_optimizers:Waits")}
    return study_of(replace(suite, optimizers=waits, reference="Waits", ladder=[]))


def executor_on(
    cluster: Cluster, said: list[str], told: list[int], checkpointing: Checkpointing | None = None
) -> RayExecutor:
    return RayExecutor(
        cluster.address, [Place()], lambda spec, step, loss: told.append(step), said.append, PRELOAD,
        checkpointing=checkpointing,
    )  # fmt: skip


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:70000", "nonsense", "ray://127.0.0.1:10001"])
def test_an_address_where_nobody_is(address: str) -> None:
    with (
        pytest.raises(UsageError, match=f"--ray {address}: .*give HOST:PORT"),
        RayExecutor(address, [Place()], lambda spec, step, loss: None, [].append),
    ):
        pass


@pytest.mark.soak
def test_a_stopped_trial_resumes_from_its_checkpoint(cluster: Cluster, study: Study, held: Path) -> None:
    spec = trial_spec(study, "vit", "Waits", "final", 0.01, 1, {})
    spec = replace(spec, training=replace(spec.training, steps=150))
    kept, said, told = Checkpointing(str(held / "checkpoints"), 0.0), [], []
    (held / "slow").touch()
    with executor_on(cluster, said, told, kept) as executor:
        executor.submit(spec, 300.0)
        assert wait_for(lambda: executor.collect(1.0) or told) is told
        (record,) = executor.pause()
    assert (record["id"], record["status"], record["unsaved"]) == (spec.id, "paused", "")
    assert [path.name for path in Path(kept.folder).iterdir()] == [f"{spec.id}.pt"]
    (held / "slow").unlink()
    first = told[-1]
    with executor_on(cluster, said, told, kept) as executor:
        executor.submit(spec, 300.0)
        (record,) = executor.collect()
    assert record["status"] == "finished"
    assert record["result"] == trial(spec)["result"]
    assert all(step > first for step in told[told.index(first) + 1 :])
    assert said == []


@pytest.mark.soak
def test_timing_trials_stay_on_one_node(cluster: Cluster, study: Study, held: Path) -> None:
    """Ratios of what a step costs are those of one machine."""
    specs = [trial_spec(study, "vit", "Waits", "timing", 0.01, seed, {}) for seed in (1, 2, 3)]
    (held / "slow").touch()
    where, records = set(), []
    with executor_on(cluster, [], []) as executor:
        for spec in specs:
            executor.submit(spec, 300.0)
        while len(records) < len(specs):
            records += executor.collect(0.2)
            where |= {node.node_id for node in cluster.list_all_nodes() if trials_of(node)}
    (held / "slow").unlink()
    assert {record["status"] for record in records} == {"finished"}
    assert len(where) == 1


@pytest.mark.soak
@pytest.mark.parametrize("asked_to_stop", [False, True])
def test_a_head_that_is_lost_ends_the_driver_and_nothing_else(
    cluster: Cluster, held: Path, asked_to_stop: bool
) -> None:
    """Also one that then has to have its trials write checkpoints, whom it cannot reach any more."""
    lost = f"lost-{asked_to_stop}"
    other = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    (held / "slow").touch()
    driver = run(held, "--output-dir", lost, "--ray", other.address)
    wait_for(lambda: driver.poll() is not None or list(held.glob(f"{lost}/trials/*.json")))
    for process in [info.process for infos in other.head_node.all_processes.values() for info in infos]:
        process.kill()
        process.wait()
    if asked_to_stop:
        driver.terminate()
    assert driver.wait(120) == 2
    other.shutdown()
    said = (held / f"{lost}.txt").read_text()
    assert "the head of the cluster has not answered" in said
    assert "Traceback" not in said
    assert not list(held.glob(f"{lost}/claims/*"))
    kept = {path.name: path.read_bytes() for path in held.glob(f"{lost}/trials/*.json")}
    (held / "slow").unlink()
    assert run(held, "--output-dir", lost, "--workers", "2").wait() == 0
    assert kept
    assert kept.items() <= {path.name: path.read_bytes() for path in held.glob(f"{lost}/trials/*.json")}.items()
    assert tables(held / lost) == tables(held / "here")


@pytest.mark.soak
def test_a_node_with_another_environment_gets_no_trials(
    cluster: Cluster, study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor one that has another revision; the others run what it gave back."""
    for node in cluster.list_all_nodes()[1:]:
        cluster.remove_node(node, allow_graceful=False)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x"]
    monkeypatch.delenv("GIT_DIR")
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "another revision"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    other = cluster.add_node(**NODE)
    monkeypatch.setenv("GIT_DIR", os.devnull)
    specs = [trial_spec(study, "vit", "Waits", "sweep", lr, 0, {}) for lr in (0.001, 0.002, 0.003, 0.004)]
    said: list[str] = []
    with executor_on(cluster, said, []) as executor:
        left, records = list(specs), []
        while len(records) < len(specs):
            while left and executor.has_room():
                executor.submit(left.pop(), 300.0)
            records += executor.collect()
    assert {record["status"] for record in records} == {"finished"}
    assert len({str(record["environment"]) for record in records}) == 1
    (line,) = said
    assert "gets no trials" in line
    assert "git:" in line
    cluster.remove_node(other)

"""Executors: equal results everywhere; what goes wrong stays in its trial."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner import run_study as study
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.observers import Observer
from fairbench.runner.preflight import run_preflight
from fairbench.runner.run_options import RunOptions
from fairbench.study.records import Record
from fairbench.study.schedule import Schedule
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.schema import Suite
from fairbench.training.place import Place

pytestmark = pytest.mark.xdist_group("servers")  # one worker has the server of processes

PRELOAD = [*study.PRELOAD, "fairbench.arenas.vit"]


def run_all(workers: int, suite: Suite, told: list[int] | None = None, limit: float = 60.0) -> dict[str, Record]:
    """Run the trials of the sweep; the records by optimizer and learning rate."""
    records: dict[str, Record] = {}

    def report(spec: TrialSpec, step: int, loss: float) -> None:
        if told is not None:
            told.append(step)

    with ProcessExecutor([Place()] * max(workers, 1), report, PRELOAD, server=workers > 0) as executor:
        schedule = Schedule(run_preflight(suite, Place(), executor.call).study, lambda spec: None)
        running: dict[str, TrialSpec] = {}
        while True:
            while executor.has_room() and (spec := schedule.next()):
                executor.submit(spec, limit)
                running[spec.id] = spec
            if not running:
                return records
            for record in executor.collect():
                spec = running.pop(record["id"])
                records[f"{spec.optimizer.name} {spec.lr:g}"] = record


def own(suite: Suite, *names: str) -> Suite:
    """The suite with own optimizers in the place of its own."""
    plans = {name: OptimizerPlan(factory=f"own_optimizers:{name}") for name in names}
    return Suite(**{**vars(suite), "optimizers": plans, "reference": names[0]})


@pytest.fixture
def here(tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the own optimizers, as working directory."""
    monkeypatch.chdir(tiny_file.parent)
    monkeypatch.syspath_prepend(tiny_file.parent)
    monkeypatch.delitem(sys.modules, "own_optimizers", raising=False)
    return tiny_file.parent


def write(folder: Path, *classes: str) -> None:
    """Own optimizers instead of those that are there."""
    code = "import os, sys, time, torch\n\nclass Signs(torch.optim.SGD):\n    pass\n\n"
    (folder / "own_optimizers.py").write_text(code + "\n\n".join(map(textwrap.dedent, classes)))


def test_a_server_and_this_process_give_bitwise_equal_results(tiny_suite: Suite) -> None:
    told: list[int] = []
    serial, parallel = run_all(0, tiny_suite, told), run_all(2, tiny_suite, told)
    assert serial.keys() == parallel.keys()
    for name, record in serial.items():
        for part in ("id", "spec", "status", "result", "error", "environment"):
            assert record[part] == parallel[name][part]
    assert sorted(told) == sorted([5, 10] * 8)


def test_failures_stay_in_their_trial(tiny_suite: Suite, here: Path) -> None:
    records = run_all(2, own(tiny_suite, "Signs", "Raises", "Dies"))
    assert {name: record["status"] for name, record in records.items()} == {
        "Signs 0.001": "finished", "Signs 0.01": "finished",
        "Raises 0.001": "finished", "Raises 0.01": "failed",
        "Dies 0.001": "finished", "Dies 0.01": "failed",
    }  # fmt: skip
    raised = records["Raises 0.01"]["error"]
    assert (raised["type"], raised["message"]) == ("ArithmeticError", "this optimizer cannot go on")
    assert "own_optimizers.py" in raised["traceback"]
    assert "killed" in records["Dies 0.01"]["error"]["message"]


LEAKS = [
    """
    class SetsDtype(Signs):
        def step(self, closure=None):
            torch.set_default_dtype(torch.float64)
            return super().step(closure)
    """,
    """
    class ForbidsGradients(Signs):
        def step(self, closure=None):
            super().step(closure)
            if self.param_groups[0]["lr"] == 0:
                torch.set_grad_enabled(False)
    """,
    """
    class Remembers(Signs):
        seen = 0

        def step(self, closure=None):
            Remembers.seen += 1
            for group in self.param_groups:
                group["lr"] /= Remembers.seen
            return super().step(closure)
    """,
]


@pytest.mark.parametrize("workers", [0, 1])
def test_no_trial_meets_what_another_one_has_left(tiny_suite: Suite, here: Path, workers: int) -> None:
    """Default dtype, gradients, a class's own memory: each trial is what it is alone."""
    write(here, *LEAKS)
    names = ["SetsDtype", "ForbidsGradients", "Remembers"]
    together = run_all(workers, own(tiny_suite, *names, "Signs"))
    for name in (*names[2:], "Signs"):
        alone = run_all(workers, own(tiny_suite, name))
        for key, record in alone.items():
            assert record["result"] == together[key]["result"]
    starts = {record["result"]["hashes"]["initial_weights"] for record in together.values() if record["result"]}
    assert len(starts) == 1


ESCAPES = {
    "Forks": ("os.fork()", "finished"),
    "Exits": ("sys.exit(0)", "failed"),
    "Vanishes": ("os._exit(0)", "failed"),
    "Prints": ("print('hello from a step')", "finished"),
}


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_trial_does_to_its_process_is_its_own(
    tiny_suite: Suite, here: Path, workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    write(
        here,
        *(
            f"""
            class {name}(Signs):
                steps = 0

                def step(self, closure=None):
                    self.steps += 1
                    if self.steps == 5:
                        {act}
                    return super().step(closure)
            """
            for name, (act, _) in ESCAPES.items()
        ),
    )
    records = run_all(workers, own(tiny_suite, *ESCAPES))
    for key, record in records.items():
        assert record["status"] == ESCAPES[key.split()[0]][1], (key, record["error"])
    errors = {key.split()[0]: record["error"] for key, record in records.items()}
    assert errors["Exits"]["type"] == "SystemExit"
    assert "code 0" in errors["Vanishes"]["message"]
    assert records["Prints 0.01"]["output"] == "hello from a step\n"
    assert "hello" not in "".join(capfd.readouterr())


def test_what_a_trial_leaves_behind_does_not_keep_the_study_waiting(tiny_suite: Suite, here: Path) -> None:
    write(
        here,
        """
        class Leaves(Signs):
            steps = 0

            def step(self, closure=None):
                self.steps += 1
                if self.steps == 5:
                    os._exit(0) if os.fork() else time.sleep(1000)
                return super().step(closure)
        """,
    )
    records = run_all(2, own(tiny_suite, "Leaves"), limit=3.0)
    assert {record["error"]["type"] for record in records.values()} == {"TimedOut"}


def test_a_trial_that_hangs_is_ended_and_says_where(tiny_suite: Suite, here: Path) -> None:
    write(
        here,
        """
        class Hangs(Signs):
            steps = 0

            def step(self, closure=None):
                self.steps += 1
                while self.steps == 5:
                    time.sleep(1)
                return super().step(closure)
        """,
    )
    for record in run_all(2, own(tiny_suite, "Hangs"), limit=3.0).values():
        assert record["error"]["type"] == "TimedOut"
        assert "no end after 3 s" in record["error"]["message"]
        assert "own_optimizers.py" in record["error"]["traceback"]


def test_a_run_without_ray_imports_none_of_it() -> None:
    load = "import sys, fairbench.cli.main, fairbench.runner.run_study"
    code = f"{load}; print([name for name in sys.modules if name.split('.')[0] == 'ray'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_without_ray_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("executor", "cluster"):
        monkeypatch.delitem(sys.modules, f"fairbench.runner.executors.ray.{name}", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'psilogic\[ray\]'"):
        study.executor_of(RunOptions([Place()], ray="local"), Observer())


@pytest.mark.parametrize("option", [["--workers", "2"], ["--devices", "0,1"]])
def test_the_number_of_trials_on_a_cluster_is_no_option(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "smoke", "--ray", "local", *option]) == 2
    assert f"leave out {option[0]}" in capsys.readouterr().err


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

"""Executors: equal results everywhere; what goes wrong stays in its trial."""

import importlib
import multiprocessing.util
import os
import pickle
import subprocess
import sys
import textwrap
from dataclasses import replace
from typing import NamedTuple

import pytest

from fairbench.common.errors import CallFailed, UsageError
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner import preload as preloading
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.preflight import run_preflight
from fairbench.study.trial_queue import TrialQueue
from fairbench.training.device_slot import DeviceSlot

pytestmark = pytest.mark.xdist_group("servers")  # they start many processes

PRELOAD = [*preloading.PRELOAD, "fairbench.arenas.vit"]
LIMITS = {"Hangs": 3.0, "Leaves": 3.0}
"""Seconds that the trials of an optimizer may take; 60 for others."""


def run_all(workers, suite, steps=None):
    """Run the first trials of a study; the records by optimizer and learning rate."""
    records = {}

    def report(spec, step, loss):
        if steps is not None:
            steps.append(step)

    slots = [DeviceSlot() for _ in range(workers)]
    with ProcessExecutor(slots, report, PRELOAD) as executor:
        study = run_preflight(suite, DeviceSlot(), executor.call).study
        queue = TrialQueue(study, lambda spec: None)
        running = {}
        while True:
            while executor.has_free_slot() and (spec := queue.next()):
                executor.submit(spec, LIMITS.get(spec.optimizer.name, 60.0))
                running[spec.id] = spec
            if not running:
                return records
            for record in executor.collect():
                spec = running.pop(record.id)
                records[f"{spec.optimizer.name} {spec.lr:g}"] = record


def user_suite(suite, *names):
    """The suite with these user-defined optimizers only, each with one short trial."""
    plans = {name: OptimizerPlan(factory=f"own_optimizers:{name}", lr=0.01) for name in names}
    short = {"vit": replace(suite.arenas["vit"], steps=20)}
    once = replace(suite.final, seeds=[1])
    return replace(suite, optimizers=plans, reference=names[0], arenas=short, final=once)


@pytest.fixture
def here(tiny_folder, monkeypatch):
    """The folder of the user-defined optimizers, which this process has not imported."""
    monkeypatch.delitem(sys.modules, "own_optimizers", raising=False)
    return tiny_folder


def write(folder, *classes):
    """Replace the user-defined optimizers."""
    code = "import importlib.util, os, sys, time, torch\n\nclass Signs(torch.optim.SGD):\n    pass\n\n"
    (folder / "own_optimizers.py").write_text(code + "\n\n".join(map(textwrap.dedent, classes)))


def test_trials_in_turn_and_at_once_give_bitwise_equal_results(tiny_suite):
    steps = []
    serial = run_all(1, tiny_suite, steps)
    parallel = run_all(2, tiny_suite, steps)
    assert serial.keys() == parallel.keys()
    for name, record in serial.items():
        for part in ("id", "status", "result", "details", "error", "environment"):
            assert getattr(record, part) == getattr(parallel[name], part)
    assert sorted(steps) == sorted([5, 10] * 8)


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


def test_no_trial_sees_the_state_that_another_one_has_left(tiny_suite, here):
    write(here, *LEAKS)
    names = ["SetsDtype", "ForbidsGradients", "Remembers"]
    together = run_all(1, user_suite(tiny_suite, *names, "Signs"))
    for name in (*names[2:], "Signs"):
        alone = run_all(1, user_suite(tiny_suite, name))
        for key, record in alone.items():
            assert record.result == together[key].result
    starts = {record.result.hashes.initial_weights for record in together.values() if record.result}
    assert len(starts) == 1


SPEC = "importlib.util.spec_from_file_location('c.kernel', 'late_helper.py')"


class End(NamedTuple):
    """What an optimizer does after a preflight, with type and text of the error in its record; empty for none."""

    does: str
    error: str = ""
    message: str = ""


ENDS = {
    "Raises": End("raise ArithmeticError('no more steps')", "ArithmeticError", "no more steps"),
    "Killed": End("os.kill(os.getpid(), 9)", "WorkerDied", "killed"),
    "Exits": End("sys.exit(0)", "SystemExit", "0"),
    "Vanishes": End("os._exit(0)", "WorkerDied", "code 0"),
    "Hangs": End("time.sleep(1000)", "TimedOut", "no end after 3 s"),
    "Leaves": End("os._exit(0) if os.fork() else time.sleep(1000)", "TimedOut", "no end after 3 s"),
    "Forks": End("os.fork()"),
    "Imports": End("import late_helper", "UsageError", "import it at the top of the module that uses it"),
    "Compiles": End(f"spec = {SPEC}; sys.modules['c.kernel'] = importlib.util.module_from_spec(spec)"),
    "Prints": End("print('hello from a step')"),
}


STEP = """
class Name(Signs):
    steps = 0

    def step(self, closure=None):
        self.steps += 1
        if self.steps == 18:
            act
        return super().step(closure)
"""


def test_an_optimizer_that_breaks_its_process_fails_only_its_trial(tiny_suite, here, capfd):
    (here / "late_helper.py").write_text("")
    write(here, *(STEP.replace("Name", name).replace("act", end.does) for name, end in ENDS.items()))
    records = run_all(2, user_suite(tiny_suite, *ENDS))
    assert len(records) == len(ENDS)
    for key, record in records.items():
        end = ENDS[key.split()[0]]
        if not end.error:
            assert record.status == "finished", (key, record.error)
            continue
        assert record.status == "failed", key
        assert record.error.type == end.error
        assert end.message in record.error.message
    for name in ("Raises", "Hangs"):
        assert "own_optimizers.py" in records[f"{name} 0.01"].error.traceback
    assert records["Prints 0.01"].output == "hello from a step\n"
    assert "hello" not in "".join(capfd.readouterr())


def test_a_run_without_ray_imports_none_of_it():
    load = "import sys, fairbench.cli.main, fairbench.runner.run_study"
    code = f"{load}; print([name for name in sys.modules if name.split('.')[0] == 'ray'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_without_ray_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "fairbench.runner.executors.ray.cluster", raising=False)
    with pytest.raises(UsageError, match=r"pip install '.\[ray\]'"):
        importlib.import_module("fairbench.runner.executors.ray.cluster")


DRIVER = """
import sys
from fairbench.common.errors import UsageError
from fairbench.training.device_slot import DeviceSlot
from fairbench.runner.executors.local import ProcessExecutor
try:
    with ProcessExecutor([DeviceSlot()], print, sys.argv[1:]) as executor:
        executor.call(len, "abc")
except UsageError as error:
    sys.exit(str(error))
"""


@pytest.mark.parametrize("folder", ["short", "long" * 40])
def test_why_no_process_starts(folder, tmp_path):
    """A server that is killed while it loads, and a socket whose path is too long."""
    (tmp_path / "killed.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    (tmp_path / folder).mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    environment |= {"TMPDIR": str(tmp_path / folder)} if folder != "short" else {}
    command = [sys.executable, "-c", DRIVER, *(["killed"] if folder == "short" else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    too_long = folder != "short" and not hasattr(multiprocessing.util, "_get_base_temp_dir")  # newer Pythons use /tmp
    assert done.returncode == (folder == "short" or too_long)
    assert ("ended while it loaded the libraries" in done.stderr) == (folder == "short")
    assert ("TMPDIR" in done.stderr) == too_long
    assert "Traceback" not in done.stderr


INTERRUPTED = """
import multiprocessing, os, signal, sys, threading
from multiprocessing import forkserver
from fairbench.training.device_slot import DeviceSlot
from fairbench.runner.executors.local import ProcessExecutor

moment, preload = sys.argv[1], []
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts with SIGINT ignored

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def interrupted(*arguments):
    result = original(*arguments)
    interrupt()
    return result

if moment == "loading":
    preload = ["waits"]
    threading.Timer(0.3, interrupt).start()
else:
    holder = forkserver if moment == "read_signed" else forkserver.ForkServer
    original = getattr(holder, moment)
    setattr(holder, moment, interrupted)
try:
    with ProcessExecutor([DeviceSlot()], print, preload) as executor:
        executor.call(len, "abc")
except KeyboardInterrupt:
    if preload:
        open("go", "w").close()
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join()  # the one that starts the process
        for started in multiprocessing.active_children():
            started.join()
    sys.exit(130)
"""


@pytest.mark.parametrize("moment", ["loading", "connect_to_new_process", "read_signed"])
def test_a_signal_while_a_process_starts_leaves_none(moment, tmp_path):
    """Neither one that starts late, nor one without a job, nor one that the driver does not know; it is not lost."""
    (tmp_path / "waits.py").write_text("import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n")
    command = [sys.executable, "-c", INTERRUPTED, moment]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (130, "")


def test_an_error_of_a_call_reaches_another_process_whole():
    error = CallFailed("plan of smoke", "no end after 5 s", "its stack")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.cause) == (CallFailed, str(error), error.cause)


def test_a_daemon_is_told_that_it_may_start_no_trials(monkeypatch):
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    with ProcessExecutor([DeviceSlot()]) as executor, pytest.raises(UsageError, match="ProcessPoolExecutor"):
        executor.call(len, "abc")

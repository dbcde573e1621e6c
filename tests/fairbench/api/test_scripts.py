"""A script without a main guard, standard input, and a thread may run a study; importing fairbench loads nothing."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.xdist_group("servers")

PROCESS = """
import os, threading
from fairbench.runner.executors.starting import ServedProcess, start_with_server

print("the script runs", flush=True)


def run():
    process = ServedProcess([], os.write, (1, b"the process runs\\n"))
    start_with_server(process)
    process.join()


run()
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
PRINTED = "the script runs\n" + 2 * "the process runs\n"


@pytest.mark.parametrize("how", ["a file", "standard input"])
def test_a_script_without_a_main_guard_starts_processes_also_in_a_thread(tmp_path, how):
    """`test_every_example_runs` and the notebook run whole studies so."""
    (tmp_path / "script.py").write_text(PROCESS)
    if how == "a file":
        command = [sys.executable, "script.py"]
        text = None
    else:
        command = [sys.executable, "-"]
        text = PROCESS
    done = subprocess.run(command, input=text, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == PRINTED


IMPORTED = """
import sys
import fairbench as fb
heavy = {"torch", "numpy", "rich", "argparse", "fairbench.api"} & sys.modules.keys()
before = [suite.name for suite in fb.list_suites()]
import fairbench.suites.loader, fairbench.arenas.registry, fairbench.optimizers.registry
assert before == [suite.name for suite in fb.list_suites()] == fairbench.suites.loader.suite_names()
assert len(fb.list_arenas()) >= 4 and len(fb.list_optimizers()) >= 27
assert set(fb.__all__) <= set(dir(fb))
print(heavy)
"""


def test_importing_fairbench_loads_nothing():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "set()\n"

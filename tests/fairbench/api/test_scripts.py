"""A script without a main guard, standard input, and a thread may run a study; importing fairbench loads nothing."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.xdist_group("servers")

SCRIPT = """
import threading
import torch
import fairbench as fb

print("the script runs")


class Halved(torch.optim.SGD):
    def __init__(self, params, lr):
        super().__init__(params, lr / 2)


def run():
    suite = fb.Suite.load("tiny.toml").with_optimizer(Halved)
    print(fb.run("tiny.toml", "results/mine", workers=1, progress=False))
    print(suite.added["Halved"].source)


thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
PRINTED = """the script runs
<Study results/mine of suite tiny: 10 of 10 trials>
import torch
import torch.optim


class Halved(torch.optim.SGD):
    def __init__(self, params, lr):
        super().__init__(params, lr / 2)

"""


def test_a_script_without_a_main_guard_runs_a_study_in_a_thread(here):
    (here / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=here, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{PRINTED}\n", "")


PROCESS = """
import os
from fairbench.runner.executors.starting import new_process, signals_deferred, start_process

print("the script runs", flush=True)
process = new_process([], os.write, (1, b"the process runs\\n"))
with signals_deferred() as deliver:
    start_process(process, deliver)
process.join()
"""


def test_standard_input_starts_a_process(tmp_path):
    done = subprocess.run([sys.executable, "-"], input=PROCESS, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("the script runs\nthe process runs\n", "")


IMPORTED = """
import sys
import fairbench as fb
heavy = {"torch", "numpy", "rich", "argparse", "fairbench.api"} & sys.modules.keys()
before = [suite.name for suite in fb.suites()]
import fairbench.suites.loader, fairbench.arenas.registry, fairbench.optimizers.registry
assert before == [suite.name for suite in fb.suites()] == fairbench.suites.loader.suite_names()
assert len(fb.arenas()) >= 4 and len(fb.optimizers()) >= 27
from fairbench import optimizers
assert optimizers()[0].factory and optimizers.registry
assert set(fb.__all__) <= set(dir(fb))
print(heavy)
"""


def test_importing_fairbench_loads_nothing_and_folders_are_functions():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")

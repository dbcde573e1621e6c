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
    print(fb.run("tiny.toml", "results/mine", workers=1, progress=False))
    try:
        print(fb.Suite.load("tiny.toml").with_optimizer(Halved).added["Halved"].source)
    except fb.UsageError as error:
        print(error)


thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
RAN = "the script runs\n<Study results/mine of suite tiny: 10 of 10 trials>\n"
SOURCE = """import torch
import torch.optim


class Halved(torch.optim.SGD):
    def __init__(self, params, lr):
        super().__init__(params, lr / 2)

"""


@pytest.mark.parametrize(("word", "known"), [("script.py", SOURCE), ("-", "the source of Halved is not known here")])
def test_a_script_runs_a_study_in_a_thread_once(word, known, here):
    (here / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, word], input=SCRIPT, cwd=here, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith(RAN)
    assert known in done.stdout


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

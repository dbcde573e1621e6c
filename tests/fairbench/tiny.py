"""A tiny suite and tiny optimizers, with which whole studies run in seconds."""

import json
import os
import textwrap
from dataclasses import dataclass
from pathlib import Path

from fairbench.runner.preflight import run_preflight
from fairbench.training import environment
from fairbench.training.determinism import one_thread
from fairbench.training.device_slot import DeviceSlot

OUTSIDE_OF_GIT = {**os.environ, "GIT_DIR": os.devnull}
"""For processes whose files are compared: a commit may come while they run."""

TINY = Path(__file__).with_name("tiny.toml").read_text()

OWN_OPTIMIZERS = """
import os, signal, torch


class Signs(torch.optim.SGD):
    '''Follows the sign of the gradient.'''

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.sign_()
        return super().step(closure)


class Explodes(Signs):
    '''Sends every weight to infinity in its third step.'''

    def step(self, closure=None):
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps == 3:
            with torch.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.fill_(float("inf"))
        return super().step(closure)


class Raises(Signs):
    '''Raises at its highest learning rate only.'''

    def step(self, closure=None):
        if self.defaults["lr"] > 5e-3:
            raise ArithmeticError("this optimizer cannot continue")
        return super().step(closure)
"""


def write_tiny(folder, text=TINY):
    """The tiny suite as a file, with a module of own optimizers."""
    (folder / "own_optimizers.py").write_text(textwrap.dedent(OWN_OPTIMIZERS))
    path = folder / "tiny.toml"
    path.write_text(text)
    return path


def install(folder, name, group, **entries):
    """A distribution in a folder, as pip leaves it, with entry points of a group."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{key} = {value}" for key, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))


def here(function, *arguments):
    """Calls a function in this process, with one thread: what an executor does in another one."""
    with one_thread():
        return json.loads(json.dumps(function(*arguments)))


def run_here(patch, folder):
    """Make this process one that can run the study of a folder, as a driver that was started there does."""
    patch.chdir(folder)
    patch.syspath_prepend(folder)
    patch.setattr(environment, "LOADED_REVISION", "none")
    environment.environment_of_program.cache_clear()


def study_of(suite):
    return run_preflight(suite, DeviceSlot(), here).study


@dataclass(frozen=True)
class Finished:
    """A study that ran from its beginning to its end, in a folder with its suite."""

    folder: Path
    words: list[str]
    stdout: str

    @property
    def output(self):
        return self.folder / "out"

"""A tiny suite and tiny optimizers, with which whole studies run in seconds."""

import textwrap
from pathlib import Path

import pytest

from fairbench.plan import Study
from fairbench.suite import Suite
from fairbench.suite_file import load_suite

TINY = """
description = "a study in seconds"
reference = "PsiLogic"
alpha = 0.05

[sweep]
lr_min = 1e-3
lr_max = 1e-2
points = 2
max_extensions = 1
seeds = [0]
evaluations = 1

[final]
seeds = [1, 2]
evaluations = 2

[training]
clip_norm = 1.0
warmup_steps = 2
log_every = 5

[arenas.vit]
metric = "accuracy"
margin = 0.02
sweep_steps = 10
steps = 40
batch_size = 16
model = { hidden_size = 8, layers = 1, heads = 1, patch_size = 4 }

[optimizers.AdamW]
options = { weight_decay = 0.01 }

[optimizers.PsiLogic]
options = { weight_decay = 0.01, chaos_warmup = 0 }
"""

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
            raise ArithmeticError("this optimizer cannot go on")
        return super().step(closure)


class Dies(Signs):
    '''Takes its process with it, at its highest learning rate only.'''

    def step(self, closure=None):
        if self.defaults["lr"] > 5e-3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(closure)
"""


@pytest.fixture
def tiny_file(tmp_path: Path) -> Path:
    """The tiny suite as a file, beside a module of own optimizers."""
    (tmp_path / "own_optimizers.py").write_text(textwrap.dedent(OWN_OPTIMIZERS))
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def tiny_suite(tiny_file: Path) -> Suite:
    return load_suite(str(tiny_file))


@pytest.fixture
def tiny_study(tiny_suite: Suite) -> Study:
    return Study.resolve(tiny_suite, "cpu")

"""Whether a training is repeatable: from a checkpoint, in a second run, and by other users of random numbers."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from math import hypot

import torch

from fairbench.common.checks import Severity, check
from fairbench.contract.case import SOME_STEPS, Case, around_step, moves, small_model, weights
from fairbench.contract.global_settings import count_forks
from fairbench.training.checkpoint import content_digest
from fairbench.training.determinism import generator_states, one_thread, weights_hash
from fairbench.training.resume_check import resume_check

CHECKPOINTS = (3, 20, 36)
"""The steps after which a training is resumed: what an optimizer remembers may begin late."""
SMALL_STEPS = 20
"""Steps of the small training that is repeated in a new interpreter."""


@check(
    "resumes",
    "fail",
    "keep everything that step() remembers in self.state[p] or in the groups, as tensors and plain numbers",
)
def resumes(case: Case) -> tuple[Severity, str]:
    """A training resumes from any of its checkpoints as if it had never stopped."""
    trainer = case.training(CHECKPOINTS[0])
    for done, until in zip(CHECKPOINTS, (*CHECKPOINTS[1:], case.steps), strict=True):
        if reason := resume_check(trainer, done, until - done)():
            return "fail", f"from a checkpoint after {done} of {case.steps} steps: {reason}"
    return "pass", f"it resumes from checkpoints after {', '.join(map(str, CHECKPOINTS))} steps bit for bit"


@check(
    "deterministic", "fail", "draw from a torch.Generator that the constructor seeds; loop over lists, not over sets"
)
def deterministic(case: Case) -> tuple[Severity, str]:
    """Two runs end with the same bits, in processes with different hashes of text, too."""
    first, second = case.training(case.steps), case.training(case.steps)
    if weights_hash(first.model) != weights_hash(second.model):
        apart = hypot(*moves(weights(first), weights(second)))
        return "fail", f"after {case.steps} steps the weights of two runs differ by {apart:.2g}"
    if _small_training(case) != _with_other_hashes(case):
        return "fail", "the weights depend on PYTHONHASHSEED: it uses hash() of a text, or the order of a set"
    return "pass", "two runs end with the same weights, bit for bit, whatever PYTHONHASHSEED is"


def _small_training(case: Case) -> str:
    """A digest of the weights after a small training."""
    model, loss = small_model()
    optimizer = case.build(model)
    for _ in range(SMALL_STEPS):
        case.step(optimizer, loss)
    return weights_hash(model)


def _with_other_hashes(case: Case) -> str:
    """The result of `_small_training` in a new interpreter: it draws the hashes of text when it starts."""
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"from {__name__} import print_digest; print_digest()"]
    sent = pickle.dumps(replace(case, settings={}))  # without functions, which cannot be sent
    done = subprocess.run(command, input=sent, capture_output=True, env=environment, check=False)
    if done.returncode or not done.stdout:
        raise RuntimeError(f"a new interpreter printed: {done.stderr.decode(errors='replace').strip()[-100:]}")
    return done.stdout.decode().split()[-1]


def print_digest() -> None:
    """Print the result of `_small_training` of a case that is read from the standard input."""
    count_forks()
    with one_thread():
        print(_small_training(pickle.load(sys.stdin.buffer)), flush=True)
    os._exit(0)  # without exit handlers, which may print


def random_states() -> dict[str, str]:
    """A digest of the state of every global random generator."""
    return {name: content_digest(state) for name, state in generator_states(torch.device("cpu")).items()}


@check(
    "global random state",
    "warn",
    "draw from a separate torch.Generator: dropout and data must not depend on the optimizer",
)
def global_random_state(case: Case) -> tuple[Severity, str]:
    """Neither the constructor nor step() changes a global random generator."""
    model, before = torch.nn.Linear(2, 2), random_states()
    case.build(model)
    changes = [("its constructor", before, random_states())]
    trainer = case.training(0)
    changes += [(f"step {step}", *around_step(trainer, random_states)) for step in range(1, SOME_STEPS + 1)]
    changed = [f"{name}'s in {when}" for when, old, new in changes for name in old if old[name] != new[name]]
    return ("warn", f"it changes {', '.join(changed[:2])}") if changed else ("pass", "it does not change")

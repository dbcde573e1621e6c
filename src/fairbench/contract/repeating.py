"""Whether a training is repeatable: from a checkpoint, in a second run, and by other users of random numbers."""

from math import hypot

import torch

from fairbench.common.checks import Severity, check
from fairbench.contract.case import SOME_STEPS, Case, around_step, moves, weights
from fairbench.optimizers.building import build_optimizer
from fairbench.training.determinism import generator_states
from fairbench.training.digests import content_digest, weights_hash
from fairbench.training.resume_check import resume_check

CHECKPOINTS = (3, 20, 36)
"""The steps after which a training is resumed: what an optimizer remembers may begin late."""


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


@check("deterministic", "fail", "draw from a torch.Generator that the constructor seeds")
def deterministic(case: Case) -> tuple[Severity, str]:
    """Two runs end with the same bits."""
    first, second = case.training(case.steps), case.training(case.steps)
    if weights_hash(first.model) != weights_hash(second.model):
        apart = hypot(*moves(weights(first), weights(second)))
        return "fail", f"after {case.steps} steps the weights of two runs differ by {apart:.2g}"
    return "pass", "two runs end with the same weights, bit for bit"


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
    build_optimizer(case.spec(case.best.lr).optimizer, model)
    changes = [("its constructor", before, random_states())]
    trainer = case.training(0)
    changes += [(f"step {step}", *around_step(trainer, random_states)) for step in range(1, SOME_STEPS + 1)]
    changed = [f"{name}'s in {when}" for when, old, new in changes for name in old if old[name] != new[name]]
    return ("warn", f"it changes {', '.join(changed[:2])}") if changed else ("pass", "it does not change")

"""Checks that a training is repeatable: from a checkpoint, in a second run, and for other users of random numbers."""

from collections.abc import Mapping
from math import hypot

import torch

from fairbench.common.checks import Severity, check
from fairbench.contract.case import SOME_STEPS, Case, around_step, moves, weights
from fairbench.optimizers.building import build_optimizer
from fairbench.training.determinism import generator_states
from fairbench.training.digests import content_digest, weights_hash
from fairbench.training.resume_check import resume_check

CHECKPOINTS = (3, 20, 36)
"""The numbers of steps after which a training is resumed. An optimizer may begin late to remember something."""


@check(
    "resumes",
    "fail",
    "keep everything that step() remembers in self.state[p] or in the groups, as tensors and plain numbers",
)
def resumes(case: Case) -> tuple[Severity, str]:
    """A training resumes from any of its checkpoints as if it had never stopped."""
    trainer = case.training(CHECKPOINTS[0])
    ends = (*CHECKPOINTS[1:], case.steps)
    for done, end in zip(CHECKPOINTS, ends, strict=True):
        resume = resume_check(trainer, done, end - done)
        reason = resume()
        if reason:
            return "fail", f"from a checkpoint after {done} of {case.steps} steps: {reason}"
    checkpoints = ", ".join(map(str, CHECKPOINTS))
    return "pass", f"it resumes from checkpoints after {checkpoints} steps bit for bit"


@check("deterministic", "fail", "draw from a torch.Generator that the constructor seeds")
def deterministic(case: Case) -> tuple[Severity, str]:
    """Two runs end with the same bits."""
    first = case.training(case.steps)
    second = case.training(case.steps)
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
    model = torch.nn.Linear(2, 2)
    before = random_states()
    build_optimizer(case.spec(case.best.lr).optimizer, model)
    changed = _changed("its constructor", before, random_states())
    trainer = case.training(0)
    for step in range(1, SOME_STEPS + 1):
        old, new = around_step(trainer, random_states)
        changed += _changed(f"step {step}", old, new)
    if changed:
        return "warn", f"it changes {', '.join(changed[:2])}"
    return "pass", "it does not change"


def _changed(when: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """The generators whose state has changed, in words. `when` names the time of the change."""
    return [f"{name}'s in {when}" for name in old if old[name] != new[name]]

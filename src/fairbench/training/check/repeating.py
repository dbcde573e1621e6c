"""Whether a training is repeatable: from a checkpoint, in a second run, and by other users of random numbers."""

import torch

from fairbench.common.checks import Severity, check
from fairbench.training.check.case import Case, around_step, distance, weights
from fairbench.training.checkpoint import content_digest
from fairbench.training.determinism import generator_states, weights_hash
from fairbench.training.resume_check import resume_check

STEPS = 3
"""Steps before a checkpoint, and after it."""


@check(
    "resumes",
    "fail",
    "keep everything that step() remembers in self.state[p] or in the groups, as tensors and plain numbers",
)
def resumes(case: Case) -> tuple[Severity, str]:
    """A training resumes from a checkpoint as if it had never stopped."""
    if reason := resume_check(case.training(STEPS), STEPS, STEPS)():
        return "fail", reason
    return "pass", "it resumes from a checkpoint bit for bit"


@check("deterministic", "fail", "draw random numbers from a separate torch.Generator, seeded in the constructor")
def deterministic(case: Case) -> tuple[Severity, str]:
    """Two runs end with the same bits."""
    first, second = case.training(STEPS), case.training(STEPS)
    if weights_hash(first.model) == weights_hash(second.model):
        return "pass", "two runs end with the same weights, bit for bit"
    return (
        "fail",
        f"after {STEPS} steps the weights of two runs differ by {distance(weights(first), weights(second)):.2g}",
    )


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
    changes += [(f"step {step}", *around_step(trainer, random_states)) for step in (1, 2)]
    changed = [f"{name}'s in {when}" for when, old, new in changes for name in old if old[name] != new[name]]
    return ("warn", f"it changes {', '.join(changed)}") if changed else ("pass", "it does not change")

"""Whether a training repeats: from a checkpoint, in a second run, and with other users of random numbers."""

import pickle
import random

import numpy as np
import torch

from fairbench.common.checks import Severity
from fairbench.training.check.case import Case, around_step, check, distance, weights
from fairbench.training.determinism import weights_hash
from fairbench.training.resume_check import continuation, differs

STEPS = 3
"""Steps before a checkpoint, and after it."""


@check("resumes", "keep all that step() remembers in self.state[p] or in the groups, as tensors and plain numbers")
def resumes(case: Case) -> tuple[Severity, str]:
    """A training goes on from a checkpoint as if it had never stopped."""
    first = continuation(case.training(STEPS), STEPS, STEPS)
    if why := first if isinstance(first, str) else differs(first):
        return "fail", why
    return "pass", "from a checkpoint it goes on bit for bit"


@check("deterministic", "draw random numbers from a torch.Generator of its own, seeded when it is made")
def deterministic(case: Case) -> tuple[Severity, str]:
    """Two runs end with the same bits."""
    first, second = case.training(STEPS), case.training(STEPS)
    if weights_hash(first.model) == weights_hash(second.model):
        return "pass", "two runs end with the same weights, bit for bit"
    return "fail", f"after {STEPS} steps two runs are {distance(weights(first), weights(second)):.2g} apart"


def random_states() -> dict[str, bytes]:
    """The state of every generator that is everybody's."""
    states = {"torch": torch.get_rng_state().numpy().tobytes(), "numpy": pickle.dumps(np.random.get_state())}
    return {**states, "python": pickle.dumps(random.getstate())}


@check(
    "global random state",
    "draw from a torch.Generator of its own: dropout and data of a training must not depend on its optimizer",
    raised="warn",
)
def global_random_state(case: Case) -> tuple[Severity, str]:
    """Neither making it nor its steps use a generator that others draw from."""
    model, unmade = torch.nn.Linear(2, 2), random_states()
    case.on(model)
    looks = [("making it", unmade, random_states())]
    trainer = case.training(0)
    looks += [(f"step {step}", *around_step(trainer, random_states)) for step in (1, 2)]
    touched = [f"{name} in {when}" for when, old, new in looks for name in old if old[name] != new[name]]
    return ("warn", f"it changes that of {', '.join(touched)}") if touched else ("pass", "it stays as it is")

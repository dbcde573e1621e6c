"""Does it do the same again: from a checkpoint, in a second run, and beside others who draw random numbers?"""

import io
import pickle
import random

import numpy as np
import torch

from fairbench.check.case import Case, Severity, around_step, check, distance, weights
from fairbench.executors import Place
from fairbench.trial import Training, weights_hash

STEPS = 3
"""Steps before a checkpoint, and after it."""


@check("resumes", "keep all that step() remembers in self.state[p] or in the groups, as tensors and plain numbers")
def resumes(case: Case) -> tuple[Severity, str]:
    """A training goes on from a checkpoint as if it had never stopped."""
    training, file = case.training(STEPS), io.BytesIO()
    torch.save([training.model.state_dict(), training.optimizer.state_dict()], file)
    file.seek(0)
    try:
        model, optimizer = torch.load(file, weights_only=True)
    except pickle.UnpicklingError:
        return (
            "fail",
            "torch.load(weights_only=True) refuses its state_dict, which holds more than tensors and plain values",
        )
    resumed = Training(training.spec, Place())
    resumed.model.load_state_dict(model)
    resumed.optimizer.load_state_dict(optimizer)
    resumed.schedule.load_state_dict(training.schedule.state_dict())
    for _ in range(STEPS):
        resumed.batches.next()
    for each in (training, resumed):
        for _ in range(STEPS):
            each.train_step()
    if weights_hash(training.model) == weights_hash(resumed.model):
        return "pass", "from a checkpoint it goes on bit for bit"
    away = distance(weights(training), weights(resumed))
    return "fail", f"{STEPS} steps after a checkpoint its weights are {away:.2g} away from those without one"


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
    training = case.training(0)
    looks += [(f"step {step}", *around_step(training, random_states)) for step in (1, 2)]
    touched = [f"{name} in {when}" for when, old, new in looks for name in old if old[name] != new[name]]
    return ("warn", f"it changes that of {', '.join(touched)}") if touched else ("pass", "it stays as it is")

"""Checks that a training is repeatable: from a checkpoint, in a second run, and for other users of random numbers."""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from functools import partial
from math import hypot, sqrt

import torch
from torch import Tensor

from fairbench.common.checks import Severity, check
from fairbench.contract.case import SOME_STEPS, Case, SmallTraining, around_step, moves, weights
from fairbench.optimizers.building import build_optimizer
from fairbench.optimizers.state import own_attributes
from fairbench.training.determinism import generator_states
from fairbench.training.digests import content_digest, weights_hash
from fairbench.training.resume_check import resume_check

CHECKPOINTS = (3, 20, 36)
"""The numbers of steps after which a training is resumed. An optimizer may begin late to remember something."""
SET_BY_SCHEDULES = "_opt_called"
"""An attribute of an optimizer that torch's schedules set."""
LOADED_SHIFT = 1.0
"""By how much loaded weights differ from those of the constructor."""


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


@check("state_dict", "warn", "keep it in self.state[p] or in the groups: other programs save only state_dict()")
def state_dict(case: Case) -> tuple[Severity, str]:
    """A training resumes from `state_dict`, without the plain attributes that fairbench saves in addition."""
    first = case.training(SOME_STEPS)
    state = deepcopy(first.numeric_state())
    attributes = state["optimizer"].pop("attributes")
    state["optimizer"]["attributes"] = {}
    for _ in range(SOME_STEPS):
        first.train_one_step()
    second = case.training(0)
    second.load_numeric_state(state)
    loaded = own_attributes(second.optimizer)
    for _ in range(SOME_STEPS):
        second.train_one_step()
    if weights_hash(first.model) == weights_hash(second.model):
        return "pass", "a training resumes from it bit for bit"
    missing = []
    for name, value in attributes.items():
        is_loaded = name in loaded and content_digest(loaded[name]) == content_digest(value)
        if not is_loaded and name != SET_BY_SCHEDULES:
            missing.append(name)
    if not missing:
        return "note", "a training that resumes from it differs, for the reason in the row 'resumes'"
    return "warn", (
        f"a training that resumes from it differs: it does not contain {', '.join(missing)}, which the optimizer keeps "
        "on itself"
    )


@check("loaded weights", "warn", "copy the weights in the first step and not in the constructor")
def loaded_weights(case: Case) -> tuple[Severity, str]:
    """The first step starts from the weights that the model has then, not from those of the constructor."""
    lost = ""
    if _loses_weights(case, torch.float32):
        lost = "float32"
    else:
        with suppress(Exception):  # the check of bfloat16 weights shows it
            if _loses_weights(case, torch.bfloat16):
                lost = "bfloat16"
    if lost:
        return "warn", (
            f"weights in {lost} that are loaded after the constructor are lost: the first step starts from a copy "
            "that the constructor made"
        )
    return "pass", "the first step starts from the weights that were loaded after the constructor"


def _loses_weights(case: Case, dtype: torch.dtype) -> bool:
    """Whether a step after loading weights of a dtype ends elsewhere than that of an optimizer that was made later."""
    ends = []
    for loads_first in (True, False):
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 4).to(dtype)
        if loads_first:
            _load(model)
        training = SmallTraining(case, model, partial(_loss, model))
        if not loads_first:
            _load(model)
        training.step()
        ends.append(model.weight.detach().clone())
    (apart,) = moves(ends[:1], ends[1:])
    return apart > 0.5 * LOADED_SHIFT * sqrt(ends[0].numel())


def _loss(model: torch.nn.Linear) -> Tensor:
    """A loss that depends on every weight of a layer."""
    outputs: Tensor = model(torch.eye(model.in_features, dtype=model.weight.dtype))
    return outputs.float().square().sum()


def _load(model: torch.nn.Module) -> None:
    """Load weights that differ from the present ones by `LOADED_SHIFT`."""
    model.load_state_dict({name: value + LOADED_SHIFT for name, value in model.state_dict().items()})


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

"""Whether the loss falls, and whether learning rates have their usual meaning."""

import torch

from fairbench.common.checks import Severity, check
from fairbench.training.check.case import Case, distance, weights

LEAST_FALL = 0.05
"""Relative fall of the loss that a short training must reach."""


def halves(model: torch.nn.Module) -> list[dict[str, list[torch.nn.Parameter]]]:
    """Two parameter groups, each with half of the tensors."""
    params = [p for p in model.parameters() if p.requires_grad]
    return [{"params": params[: len(params) // 2]}, {"params": params[len(params) // 2 :]}]


@check(
    "trains", "fail", "see that step() moves p against p.grad; if it needs other rates, set lr_scale in a suite file"
)
def trains(case: Case) -> tuple[Severity, str]:
    """The loss falls at some learning rate."""
    best, tried = case.best, ", ".join(f"{training.lr:g}" for training in case.trainings)
    diverged = ", ".join(f"{training.lr:g}" for training in case.trainings if training.end is None)
    if best.end is None:
        return "fail", f"the training loss soon stops being finite at lr {diverged}"
    fall = f"the training loss goes from {best.start:.2f} to {best.end:.2f} at lr {best.lr:g}"
    fall += f"; it diverges at lr {diverged}" if diverged else ""
    if best.end < (1 - LEAST_FALL) * best.start:
        return "pass", fall
    return "fail" if best.end >= best.start else "warn", f"the best result of lr {tried}: {fall}"


@check("lr schedule", "fail", "multiply every change of a weight, decay included, by the current group['lr']")
def lr_schedule(case: Case) -> tuple[Severity, str]:
    """A learning rate that a scheduler has changed applies to the next step."""
    distances = []
    for factor in (1.0, 0.5, 0.0):
        trainer = case.training(2)
        for group in trainer.optimizer.param_groups:
            group["lr"] *= factor
        old = weights(trainer)
        trainer.train_one_step()
        distances.append(distance(old, weights(trainer)))
    whole, half, none = distances
    if half == whole:
        return "fail", "at half the lr a step moves the weights as far as before"
    if none > 0:
        return "warn", f"at lr 0 a step still moves the weights, {none / whole:.2g} times as far as at {case.best.lr:g}"
    return "pass", f"half the lr moves the weights {half / whole:.2f} times as far, lr 0 not at all"


@check("parameter groups", "fail", "read lr and the other hyperparameters from each group in step(), not from self")
def parameter_groups(case: Case) -> tuple[Severity, str]:
    """Every group has its own learning rate."""
    trainer = case.training(0, f"{__name__}:halves")
    *others, last = trainer.optimizer.param_groups
    if not others:
        return "note", "it has only one group"
    old, frozen = weights(trainer), {id(p) for p in last["params"]}
    for _ in range(3):
        last["lr"] = 0.0  # the schedule sets it after every step
        trainer.train_one_step()
    moved = {id(p): not torch.equal(p, before) for p, before in zip(trainer.params, old, strict=True)}
    if any(wrong := [moved[key] for key in frozen & moved.keys()]):
        return "fail", f"in a group with lr 0 {sum(wrong)} of {len(wrong)} tensors move"
    if not any(moved.values()):
        return "fail", "if one group has lr 0, the other groups do not move either"
    return "pass", "a group with lr 0 does not move, the others do"

"""Does it train, and do its learning rates mean what they say?"""

import torch

from fairbench.common.checks import Severity
from fairbench.training.check.case import Case, check, distance, weights

FALL = 0.05
"""The share of the loss that a training of a minute's part takes away, if its learning rate is any good."""


def halves(model: torch.nn.Module) -> list[dict[str, list[torch.nn.Parameter]]]:
    """Two parameter groups, of half of the tensors each."""
    params = [p for p in model.parameters() if p.requires_grad]
    return [{"params": params[: len(params) // 2]}, {"params": params[len(params) // 2 :]}]


@check(
    "trains", "see that step() moves p against p.grad; if its rates are elsewhere, say so with lr_scale in a suite file"
)
def trains(case: Case) -> tuple[Severity, str]:
    """The loss falls at some learning rate."""
    best, tried = case.best, [f"{course.lr:g}" for course in case.trainings]
    diverged = [f"{course.lr:g}" for course in case.trainings if course.end is None]
    lost = f"; it diverges at lr {', '.join(diverged)}" if diverged else ""
    if best.end is None:
        return "fail", f"the training loss is soon not finite at lr {', '.join(diverged)}"
    course = f"the training loss goes from {best.start:.2f} to {best.end:.2f} at lr {best.lr:g}"
    if best.end < (1 - FALL) * best.start:
        return "pass", f"{course}{lost}"
    fails: Severity = "fail" if best.end >= best.start else "warn"
    return fails, f"of lr {', '.join(tried)} none is better than this: {course}{lost}"


@check("lr schedule", "multiply every move of a weight, decay included, by group['lr'] as it is in that step")
def lr_schedule(case: Case) -> tuple[Severity, str]:
    """A rate that a scheduler has changed counts in the next step."""
    ways = []
    for factor in (1.0, 0.5, 0.0):
        trainer = case.training(2)
        for group in trainer.optimizer.param_groups:
            group["lr"] *= factor
        old = weights(trainer)
        trainer.train_one_step()
        ways.append(distance(old, weights(trainer)))
    whole, half, none = ways
    if half == whole:
        return "fail", "at half the lr a step moves the weights as far as before"
    if none > 0:
        return (
            "warn",
            f"at lr 0 a step still moves the weights, {none / whole:.2g} times as far as at lr {case.best.lr:g}",
        )
    return "pass", f"half the lr moves the weights {half / whole:.2f} times as far, lr 0 not at all"


@check("parameter groups", "read lr and the other hyperparameters from each group in step(), not from self")
def parameter_groups(case: Case) -> tuple[Severity, str]:
    """Every group has its own rate."""
    trainer = case.training(0, f"{__name__}:halves")
    *others, last = trainer.optimizer.param_groups
    if not others:
        return "note", "it has one group only"
    old, still = weights(trainer), {id(p) for p in last["params"]}
    for _ in range(3):
        last["lr"] = 0.0  # the schedule sets it after every step
        trainer.train_one_step()
    moved = [not torch.equal(p, before) for p, before in zip(trainer.params, old, strict=True)]
    frozen = [move for p, move in zip(trainer.params, moved, strict=True) if id(p) in still]
    free = [move for p, move in zip(trainer.params, moved, strict=True) if id(p) not in still]
    if any(frozen):
        return "fail", f"in a group with lr 0 {sum(frozen)} of {len(frozen)} tensors move"
    if not any(free):
        return "fail", "where one group has lr 0, the others do not move either"
    return "pass", "a group with lr 0 stays, the others move"

"""Does it train, and do its learning rates mean what they say?"""

import torch

from fairbench.check.case import Case, Severity, check, distance, weights

FALL = 0.05
"""The least share of the loss that a training must take away."""


def halves(model: torch.nn.Module) -> list[dict[str, list[torch.nn.Parameter]]]:
    """Two parameter groups, of half of the tensors each."""
    params = [p for p in model.parameters() if p.requires_grad]
    return [{"params": params[: len(params) // 2]}, {"params": params[len(params) // 2 :]}]


@check("trains", "see that step() moves p against p.grad by about group['lr'], and that nothing in its state overflows")
def trains(case: Case) -> tuple[Severity, str]:
    """The loss falls at some learning rate."""
    best = case.best
    diverged = [f"{course.lr:g}" for course in case.courses if course.end is None]
    lost = f"; diverges at lr {', '.join(diverged)}" if diverged else ""
    if best.end is None:
        return "fail", f"the loss is not finite at any rate{lost}"
    course = f"the training loss goes from {best.start:.2f} to {best.end:.2f} at lr {best.lr:g}{lost}"
    return ("pass" if best.end < (1 - FALL) * best.start else "fail"), course


@check("lr schedule", "multiply every move of a weight, decay included, by group['lr'] as it is in that step")
def lr_schedule(case: Case) -> tuple[Severity, str]:
    """A rate that a scheduler has changed counts in the next step."""
    ways = []
    for factor in (1.0, 0.5, 0.0):
        training = case.training(2)
        for group in training.optimizer.param_groups:
            group["lr"] *= factor
        old = weights(training)
        training.train_step()
        ways.append(distance(old, weights(training)))
    whole, half, none = ways
    if none > 0:
        return "fail", f"at lr 0 a step still moves the weights by {none:.2g}; at lr {case.best.lr:g} by {whole:.2g}"
    if half == whole:
        return "fail", f"at half the lr a step moves the weights as far as before, {whole:.2g}"
    return "pass", f"half the lr moves the weights {half / whole:.2f} times as far, lr 0 not at all"


@check("parameter groups", "read lr and the other hyperparameters from each group in step(), not from self")
def parameter_groups(case: Case) -> tuple[Severity, str]:
    """Every group has its own rate."""
    training = case.training(2, f"{__name__}:halves")
    *others, last = training.optimizer.param_groups
    if not others:
        return "note", "it has one group only"
    last["lr"] = 0.0
    still = {id(p) for p in last["params"]}
    old = weights(training)
    training.train_step()
    moved = [not torch.equal(p, before) for p, before in zip(training.params, old, strict=True)]
    frozen = [move for p, move in zip(training.params, moved, strict=True) if id(p) in still]
    free = [move for p, move in zip(training.params, moved, strict=True) if id(p) not in still]
    if any(frozen):
        return "fail", f"in a group with lr 0 {sum(frozen)} of {len(frozen)} tensors move"
    if not any(free):
        return "fail", "where one group has lr 0, the others do not move either"
    return "pass", "a group with lr 0 stays, the others move"

"""A check that each parameter group is trained with its own hyperparameters."""

from torch import Tensor, nn

from fairbench.common.checks import Severity, check
from fairbench.common.errors import one_line
from fairbench.contract.case import Case, moves, weights
from fairbench.contract.learning import idle
from fairbench.training.trainer import Trainer

STEPS = 3
"""The number of steps of a training with several groups."""
DECAY = 0.1
"""The weight decay of one group, while the decay of the others is 0."""
HALVES = f"{__name__}:halves"


def halves(model: nn.Module) -> list[dict[str, list[nn.Parameter]]]:
    """Two parameter groups, each with half of the tensors."""
    params = [p for p in model.parameters() if p.requires_grad]
    middle = len(params) // 2
    return [{"params": params[:middle]}, {"params": params[middle:]}]


@check("parameter groups", "fail", "in step() use every hyperparameter, and read it from the group, not from self")
def parameter_groups(case: Case) -> tuple[Severity, str]:
    """Every group is trained, with its own learning rate and weight decay."""
    try:
        trainer = case.training(0, HALVES)
    except (ValueError, NotImplementedError) as error:  # an optimizer may refuse groups, as torch's LBFGS does
        return "note", f"not tried: it raises {one_line(error)}"
    groups = trainer.optimizer.param_groups
    if len(groups) == 1:
        return "note", "it has only one group"
    evidence = idle(trainer, STEPS) or frozen_group(case.training(0, HALVES))
    if evidence:
        return "fail", f"in {len(groups)} groups, {evidence}"
    if not all("weight_decay" in group for group in groups):
        return "pass", "every group is trained with its own rate"
    evidence = decay_of_groups(case)
    if evidence:
        return "fail", evidence
    return "pass", "every group is trained with its own rate and weight decay"


def frozen_group(trainer: Trainer) -> str:
    """Train with lr 0 in the last group. Returns the fault in words; empty if only the other groups move."""
    last = trainer.optimizer.param_groups[-1]
    frozen = {id(p) for p in last["params"]}
    old = weights(trainer)
    for _ in range(STEPS):
        last["lr"] = 0.0  # the schedule sets it after every step
        trainer.train_one_step()
    frozen_has_moved = []
    other_has_moved = []
    for p, distance in zip(trainer.params, moves(old, weights(trainer)), strict=True):
        if id(p) in frozen:
            frozen_has_moved.append(distance > 0)
        else:
            other_has_moved.append(distance > 0)
    if any(frozen_has_moved):
        return f"the last one with lr 0, {sum(frozen_has_moved)} of its {len(frozen_has_moved)} tensors move"
    if not any(other_has_moved):
        return "the last one with lr 0, the others do not move either"
    return ""


def decay_of_groups(case: Case) -> str:
    """Train with and without weight decay in the last group.

    Returns:
        The fault in words; empty if the decay changes the last group alone.
    """
    others, every = _trained_with_decay(case, 0.0)
    others_with_decay, every_with_decay = _trained_with_decay(case, DECAY)
    changed = _changed(every, every_with_decay)
    if not changed:
        return f"a weight decay of {DECAY} in the last of several groups has no effect"
    changed_others = _changed(others, others_with_decay)
    if changed_others:
        return f"the weight decay of the last group changes {changed_others} tensors of the others"
    return ""


def _trained_with_decay(case: Case, decay: float) -> tuple[list[Tensor], list[Tensor]]:
    """Train with a weight decay in the last group alone.

    Returns:
        The weights of the other groups after the first step, and all weights after the last.
    """
    trainer = case.training(0, HALVES)
    *others, last = trainer.optimizer.param_groups
    for group in others:
        group["weight_decay"] = 0.0
    last["weight_decay"] = decay
    trainer.train_one_step()
    first = []
    for group in others:
        first += [p.detach().clone() for p in group["params"]]
    for _ in range(STEPS - 1):
        trainer.train_one_step()
    return first, weights(trainer)


def _changed(old: list[Tensor], new: list[Tensor]) -> int:
    """The number of tensors that differ."""
    return sum(distance != 0 for distance in moves(old, new))

"""A check that each parameter group is trained with its own hyperparameters."""

from torch import Tensor, nn

from fairbench.common.checks import Severity, check
from fairbench.common.errors import one_line
from fairbench.contract.case import MOST_STEPS, Case, around_step, moves, train_moving_steps, weights
from fairbench.contract.learning import idle
from fairbench.contract.repeating import random_states
from fairbench.training.trainer import Trainer

STEPS = 3
"""The number of steps of a training with several groups."""
DECAY = 0.1
"""The weight decay of one group, while the decay of the others is 0."""
HALVES = f"{__name__}:halves"
REVERSED_HALVES = f"{__name__}:reversed_halves"
SAME = 1e-3
"""Steps are the same if they differ by at most this part of their length. Sums in another order round differently."""


def halves(model: nn.Module) -> list[dict[str, list[nn.Parameter]]]:
    """Two parameter groups, each with half of the tensors."""
    params = [p for p in model.parameters() if p.requires_grad]
    middle = len(params) // 2
    return [{"params": params[:middle]}, {"params": params[middle:]}]


def reversed_halves(model: nn.Module) -> list[dict[str, list[nn.Parameter]]]:
    """The two groups of `halves` in the opposite order."""
    first, second = halves(model)
    return [second, first]


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
    evidence, _ = idle(trainer, STEPS)
    if not evidence:
        evidence = frozen_group(case.training(0, HALVES))
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
    moving = 0
    for _ in range(MOST_STEPS):
        last["lr"] = 0.0  # the schedule sets it after every step
        moving += train_moving_steps(trainer, 1, most=1)
        if moving == STEPS:
            break
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
    train_moving_steps(trainer, STEPS - 1)
    return first, weights(trainer)


@check(
    "order of groups",
    "fail",
    "count steps in self.state[p] or in each group: a count that every group increases makes bias corrections wrong",
)
def order_of_groups(case: Case) -> tuple[Severity, str]:
    """The steps of a group are the same, whether it is the first or the second group."""
    if case.spec(case.best.lr).optimizer.groups:
        return "note", "not tried: its groups are made for it"
    try:
        start, in_order, draws = _trained(case, HALVES)
        _, in_reverse, _ = _trained(case, REVERSED_HALVES)
    except (ValueError, NotImplementedError) as error:
        return "note", f"not tried: it raises {one_line(error)}"
    if draws:
        return "note", "not tried: a step draws random numbers, which depend on the order of its parameters"
    differing = 0
    lengths = moves(start, in_order)
    for length, distance in zip(lengths, moves(in_order, in_reverse), strict=True):
        differing += distance > SAME * length
    if differing:
        return "fail", (
            f"with the two groups in the opposite order, {differing} of {len(start)} tensors end elsewhere after "
            f"{STEPS} steps: something that the steps use, such as a count of steps, is shared by the groups"
        )
    return "pass", "the order of the groups does not matter"


def _trained(case: Case, groups: str) -> tuple[list[Tensor], list[Tensor], bool]:
    """Train with the groups of a function. Returns the weights before and after, and whether a step draws numbers."""
    trainer = case.training(0, groups)
    start = weights(trainer)
    before, after = around_step(trainer, random_states)
    train_moving_steps(trainer, STEPS - 1)
    return start, weights(trainer), before != after


def _changed(old: list[Tensor], new: list[Tensor]) -> int:
    """The number of tensors that differ."""
    return sum(distance != 0 for distance in moves(old, new))

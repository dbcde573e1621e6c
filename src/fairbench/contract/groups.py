"""Whether each parameter group is trained with its own hyperparameters."""

from torch import Tensor, nn

from fairbench.common.checks import Severity, check
from fairbench.common.errors import one_line
from fairbench.contract.case import Case, moves, weights
from fairbench.contract.learning import idle
from fairbench.training.trainer import Trainer

STEPS = 3
DECAY = 0.1
"""The weight decay of one group, while it is 0 in the others."""
HALVES = f"{__name__}:halves"


def halves(model: nn.Module) -> list[dict[str, list[nn.Parameter]]]:
    """Two parameter groups, each with half of the tensors."""
    params = [p for p in model.parameters() if p.requires_grad]
    return [{"params": params[: len(params) // 2]}, {"params": params[len(params) // 2 :]}]


@check("parameter groups", "fail", "read lr and the other hyperparameters from each group in step(), not from self")
def parameter_groups(case: Case) -> tuple[Severity, str]:
    """Every group is trained, with its own learning rate and weight decay."""
    try:
        trainer = case.training(0, HALVES)
    except (ValueError, NotImplementedError) as error:  # as torch's LBFGS
        return "note", f"not tried: it raises {one_line(error)}"
    groups = trainer.optimizer.param_groups
    if len(groups) == 1:
        return "note", "it has only one group"
    if evidence := idle(trainer, STEPS) or frozen_group(case.training(0, HALVES)):
        return "fail", f"in {len(groups)} groups, {evidence}"
    own = "rate and weight decay" if all("weight_decay" in group for group in groups) else "rate"
    if own != "rate" and (evidence := decay_of_groups(case)):
        return "fail", evidence
    return "pass", f"every group is trained with its own {own}"


def frozen_group(trainer: Trainer) -> str:
    """Train with lr 0 in the last group; returns what is wrong, empty if only the other groups move."""
    last = trainer.optimizer.param_groups[-1]
    old, frozen = weights(trainer), {id(p) for p in last["params"]}
    for _ in range(STEPS):
        last["lr"] = 0.0  # the schedule sets it after every step
        trainer.train_one_step()
    moved = {id(p): x > 0 for p, x in zip(trainer.params, moves(old, weights(trainer)), strict=True)}
    if any(wrong := [moved[key] for key in frozen & moved.keys()]):
        return f"the last one with lr 0, {sum(wrong)} of its {len(wrong)} tensors move"
    return "" if any(moved.values()) else "the last one with lr 0, the others do not move either"


def decay_of_groups(case: Case) -> str:
    """Train with and without weight decay in the last group; returns what is wrong, empty if only it changes."""

    def trained(decay: float) -> list[list[Tensor]]:
        """The weights of the other groups after the first step, and of all after the last."""
        trainer = case.training(0, HALVES)
        *others, last = trainer.optimizer.param_groups
        for group in others:
            group["weight_decay"] = 0.0
        last["weight_decay"] = decay
        trainer.train_one_step()
        first = [p.detach().clone() for group in others for p in group["params"]]
        for _ in range(STEPS - 1):
            trainer.train_one_step()
        return [first, weights(trainer)]

    others, every = (sum(map(bool, moves(a, b))) for a, b in zip(trained(0.0), trained(DECAY), strict=True))
    if not every:
        return f"a weight decay of {DECAY} in the last of several groups has no effect"
    return f"the weight decay of the last group changes {others} tensors of the others" if others else ""

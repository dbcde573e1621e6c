"""Checks of an optimizer's treatment of gradients: unchanged, missing, zero, sparse, in bfloat16, by a closure."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fairbench.common.checks import Severity, check
from fairbench.contract.case import MOST_STEPS, Case, SmallTraining, around_step, tensors, train_moving_steps, weights
from fairbench.training.optimizer_needs import recomputes
from fairbench.training.trainer import Trainer

GRADIENT_SCALES = (1.0, 1e4)
"""Factors of the gradients that a step must not change. The task clips its gradients to a norm of 1."""


@check("gradients untouched", "warn", "work on a copy: p.grad may be accumulated, logged or clipped after the step")
def gradients_untouched(case: Case) -> tuple[Severity, str]:
    """A step does not change p.grad, be it small or large."""
    if recomputes(case.optimizer.needs):
        return "note", "not tried: it has them computed several times"
    for scale in GRADIENT_SCALES:
        evidence = _changed_gradients(case.training(1), scale)
        if evidence:
            if scale > 1:
                evidence += f" if the gradients are {scale:g} times as large as those of this training"
            return "warn", evidence
    return "pass", "p.grad is the same after a step, bit for bit, also if it is large"


def _changed_gradients(trainer: Trainer, scale: float) -> str:
    """What a step does to gradients that were multiplied by a factor; empty if it leaves them as they are."""
    factors = iter((scale, 1.0))  # before the step and after it

    def gradients() -> list[Tensor]:
        present = [p.grad.detach() for p in trainer.params if p.grad is not None]
        factor = next(factors)
        return [gradient.mul_(factor).clone() for gradient in present]

    old, new = around_step(trainer, gradients)
    if len(new) < len(old):
        return f"{len(old) - len(new)} of {len(old)} tensors have no gradient after a step"
    changed = sum(not torch.equal(before, after) for before, after in zip(old, new, strict=True))
    if changed:
        return f"a step changes p.grad of {changed} of {len(old)} tensors"
    return ""


@check("missing gradients", "fail", "skip a parameter whose p.grad is None, and create its state at its first gradient")
def missing_gradients(case: Case) -> tuple[Severity, str]:
    """A parameter without a gradient does not move, and is trained once it has one."""
    if recomputes(case.optimizer.needs):
        return "note", "not tried: it has all gradients computed again"
    trainer = case.training(0)
    idle = trainer.params[0]

    def remove_gradient() -> Tensor:
        idle.grad = None
        return idle.detach().clone()

    old, new = around_step(trainer, remove_gradient)
    if not torch.equal(old, new):
        return "fail", "a parameter without a gradient is moved"
    if not train_moving_steps(trainer, 2):
        return "fail", f"no step moves the weights in {MOST_STEPS} steps"
    if torch.equal(idle, new):
        return "fail", "a parameter that gets its first gradient in step 2 is not moved in the next two steps"
    return "pass", "a parameter without a gradient does not move, and is trained once it has one"


@check("zero gradients", "fail", "add eps to norms and roots of the gradient before dividing by them")
def zero_gradients(case: Case) -> tuple[Severity, str]:
    """The weights stay finite if all gradients are zero."""
    trainer = case.training(0)

    def zero() -> None:
        for p in trainer.params:
            if p.grad is not None:
                p.grad.zero_()

    around_step(trainer, zero)
    trainer.train_one_step()
    broken = sum(not torch.isfinite(p).all() for p in weights(trainer))
    if broken:
        return "fail", f"after a step with zero gradients {broken} of {len(trainer.params)} tensors are not finite"
    return "pass", "the weights stay finite"


@check("sparse gradients", "note", "")
def sparse_gradients(case: Case) -> tuple[Severity, str]:
    """Whether the optimizer takes the gradients of nn.Embedding(sparse=True)."""
    model = nn.Embedding(8, 4, sparse=True)
    old = model.weight.detach().clone()

    def loss() -> Tensor:
        outputs: Tensor = model(torch.tensor([1, 2]))
        return outputs.sum()

    SmallTraining(case, model, loss).step()
    has_moved = (model.weight != old).any(1)
    moved = has_moved.nonzero().flatten().tolist()
    return "pass", f"it takes them; with gradients in rows 1 and 2 of 0 to 7 it moves {moved}"


@check("bfloat16 weights", "warn", "compute in float32, or cast to p.dtype")
def bfloat16_weights(case: Case) -> tuple[Severity, str]:
    """Weights in bfloat16 are trained."""
    model = nn.Linear(8, 4).bfloat16()
    old = model.weight.detach().clone()

    def loss() -> Tensor:
        outputs: Tensor = model(torch.eye(8, dtype=torch.bfloat16))
        return outputs.float().square().sum()

    training = SmallTraining(case, model, loss)
    for _ in range(5):
        training.step()
    if not torch.isfinite(model.weight).all():
        return "warn", "they are not finite after 5 steps"
    dtypes = set()
    for tensor in tensors([*training.optimizer.state.values()]):
        if tensor.dim():
            dtypes.add(str(tensor.dtype).removeprefix("torch."))
    state = ", ".join(sorted(dtypes)) or "plain numbers"
    moved = "are trained"
    if torch.equal(model.weight, old):
        moved = "do not move in 5 steps: the steps round to zero"
    return "pass", f"they {moved}; the state is in {state}"


@check(
    "closure",
    "warn",
    "begin step(self, closure=None) with `with torch.enable_grad(): loss = closure()` and return the loss",
)
def closure(case: Case) -> tuple[Severity, str]:
    """A step takes a closure, as torch's optimizers do, and returns its loss."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    losses: list[Tensor] = []

    def loss() -> Tensor:
        value = cross_entropy(model(torch.eye(4)), torch.tensor([0, 1, 0, 1]))
        losses.append(value)
        return value

    training = SmallTraining(case, model, loss)
    training.gradients()
    returned = training.optimizer.step(training.gradients)  # type: ignore[arg-type]
    if len(losses) == 1:
        return "warn", "step(closure) does not call the closure"
    if returned is None:
        return "warn", "step(closure) returns None and not the loss"
    return "pass", "step(closure) calls the closure and returns its loss"

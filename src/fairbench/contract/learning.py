"""Checks that the loss falls, that every tensor is trained, and that a learning rate has its usual meaning."""

from collections.abc import Sequence
from functools import partial
from math import hypot

from fairbench.common.checks import Severity, check
from fairbench.contract.case import MOST_STEPS, SOME_STEPS, Case, around_step, moves, train_moving_steps, weights
from fairbench.optimizers.registry import facts_of
from fairbench.training.trainer import Trainer
from fairbench.training.unused import marks, unused

LEAST_FALL = 0.05
"""The relative fall of the loss that a short training must reach."""
LEAST_GRADIENT = 1e-3
"""A tensor must move if the norm of its gradient is above this part of the largest norm of a tensor's gradient."""


@check(
    "trains", "fail", "see that step() moves p against p.grad; if it needs other rates, set lr_scale in a suite file"
)
def trains(case: Case) -> tuple[Severity, str]:
    """The loss falls at some learning rate."""
    best = case.best
    diverged = ", ".join(f"{training.lr:g}" for training in case.trainings if training.end is None)
    if best.end is None:
        return "fail", f"the training loss soon stops being finite at lr {diverged}"
    fall = f"the loss of the training examples goes from {best.start:.5g} to {best.end:.5g} at lr {best.lr:g}"
    if diverged:
        fall += f"; it diverges at lr {diverged}"
    if best.end < (1 - LEAST_FALL) * best.start:
        return "pass", fall
    tried = ", ".join(f"{training.lr:g}" for training in case.trainings)
    severity: Severity = "fail" if best.end >= best.start else "warn"
    return severity, f"the best result of lr {tried}: {fall}"


def idle(trainer: Trainer, steps: int) -> tuple[str, list[int]]:
    """Train for some steps, and look for tensors that have a gradient and never move, or that change their kind.

    Args:
        trainer: the training.
        steps: the number of steps that count, at least 1.

    Returns:
        The fault in words, which is empty if there is none; and the steps with gradients in which no tensor moved. They
        do not count as steps, as far as `MOST_STEPS` allows.
    """
    names = [name for name, p in trainer.model.named_parameters() if p.requires_grad]
    start = weights(trainer)
    last = start
    kinds = _kinds(trainer)
    with_gradient: set[str] = set()
    skipped: list[int] = []
    for step in range(1, max(steps, MOST_STEPS) + 1):
        norms, _ = around_step(trainer, partial(_gradient_norms, trainer))
        least = LEAST_GRADIENT * max(norms)
        for name, norm in zip(names, norms, strict=True):
            if norm > least:
                with_gradient.add(name)
        other_kind = _other_kind(names, kinds, _kinds(trainer))
        if other_kind:
            return f"step {step} turns {other_kind}", skipped
        present = weights(trainer)
        if any(norms) and not any(moves(last, present)):
            skipped.append(step)
        last = present
        if step - len(skipped) == steps:
            break
    if len(skipped) == step:
        return f"no tensor moves in {step} steps, although there are gradients", skipped
    distances = moves(start, last)
    still = []
    for name, distance in zip(names, distances, strict=True):
        if distance == 0 and name in with_gradient:
            still.append(name)
    if not still:
        return "", skipped
    return f"{len(still)} of {len(with_gradient)} tensors with a gradient never move, such as {still[0]}", skipped


def _gradient_norms(trainer: Trainer) -> list[float]:
    """The norm of the gradient of each tensor; 0 for a tensor without a gradient."""
    return [0.0 if p.grad is None else float(p.grad.norm()) for p in trainer.params]


def _other_kind(names: Sequence[str], before: Sequence[str], after: Sequence[str]) -> str:
    """The first tensor whose kind has changed, with both kinds; empty if there is none."""
    for name, old, new in zip(names, before, after, strict=True):
        if old != new:
            return f"{name} from {old} into {new}"
    return ""


def _kinds(trainer: Trainer) -> list[str]:
    """The dtype and the shape of each tensor, and whether it gets gradients, in words."""
    kinds = []
    for p in trainer.params:
        gradient = "with a gradient" if p.requires_grad else "without a gradient"
        kinds.append(f"{p.dtype} {tuple(p.shape)} {gradient}")
    return kinds


@check("every tensor", "fail", "update each p of each group, and leave its dtype, shape and requires_grad alone")
def every_tensor(case: Case) -> tuple[Severity, str]:
    """Each parameter is trained, and keeps its dtype, shape and requires_grad."""
    evidence, skipped = idle(case.training(0), case.steps)
    if evidence:
        return "fail", evidence
    kept = "each is trained, and keeps its dtype, shape and requires_grad"
    if skipped:
        return "note", (
            f"{kept}; {len(skipped)} of {case.steps} steps, such as step {skipped[0]}, move no weight although there "
            "are gradients: whether a step is taken depends on the data or on a count of steps"
        )
    return "pass", kept


@check(
    "unused parts",
    "warn",
    'if a training must call it, say so: needs = ["METHOD every 10 steps"] (docs/bring-your-own-optimizer.md)',
)
def unused_parts(case: Case) -> tuple[Severity, str]:
    """Every state changes, and each public method is called."""
    trainer = case.training(1)
    after_first_step = None
    if not facts_of(case.optimizer.factory):
        after_first_step = marks(trainer.optimizer)
    for _ in range(1, case.steps):
        trainer.train_one_step()
    found = unused(trainer.optimizer, trainer.needs.methods, after_first_step, trainer.needs.steps)
    if not found:
        return "pass", "every state changes, and each public method is called"
    severity: Severity = "warn" if found[0].startswith("state") else "note"
    return severity, ", ".join(found)


def _rates(trainer: Trainer) -> list[float]:
    """The learning rate of each parameter group."""
    return [group["lr"] for group in trainer.optimizer.param_groups]


def _two_moving_steps(case: Case) -> tuple[int, int]:
    """The first two steps that move weights, from step 3 on; steps 3 and 4 if there are none."""
    trainer = case.training(2)
    moving = []
    for step in range(3, MOST_STEPS):
        if train_moving_steps(trainer, 1, most=1):
            moving.append(step)
        if len(moving) == 2:
            return moving[0], moving[1]
    return 3, 4


def _moves_at(case: Case, factor: float, steps: tuple[int, int]) -> list[list[float]]:
    """The distance that each tensor moves in two steps. A factor multiplies the rate from the first of them on."""
    first, second = steps
    trainer = case.training(first - 1)
    distances = []
    for step in range(first, second + 1):
        for group in trainer.optimizer.param_groups:
            group["lr"] *= factor  # the schedule sets it again in each step
        old = weights(trainer)
        trainer.train_one_step()
        if step in steps:
            distances.append(moves(old, weights(trainer)))
    return distances


@check("lr schedule", "fail", "multiply every change of a weight, decay included, by group['lr']; do not assign to it")
def lr_schedule(case: Case) -> tuple[Severity, str]:
    """A learning rate that a scheduler has set applies to the next steps, and no step changes it."""
    trainer = case.training(0)
    for step in range(1, SOME_STEPS + 1):
        old, new = around_step(trainer, partial(_rates, trainer))
        if old != new:
            return "fail", f"step {step} changes group['lr'] from {old[0]:g} to {new[0]:g}"
    steps = _two_moving_steps(case)
    whole = _moves_at(case, 1.0, steps)
    half = _moves_at(case, 0.5, steps)
    none = _moves_at(case, 0.0, steps)
    is_late = half[0] == whole[0] and half[1] != whole[1]  # it applies from the second step on, as in torch's ASGD
    judged = 1 if is_late else 0
    same = 0
    for at_half, at_whole in zip(half[judged], whole[judged], strict=True):
        if at_half == at_whole and at_whole > 0:
            same += 1
    if same:
        return "fail", f"at half the lr a step moves {same} of {len(trainer.params)} tensors as far as before"
    moved = hypot(*whole[judged])
    slower = hypot(*half[judged])
    still = hypot(*none[judged])
    if moved == 0:
        return "fail", f"no step moves the weights in {MOST_STEPS} steps"
    if still > 0:
        compared = f"{still / moved:.2g} times as far as at {case.best.lr:g}"
        return "warn", f"at lr 0 a step still moves the weights, {compared}"
    second = ", from the second step on" if is_late else ""
    return "pass", f"half the lr moves the weights {slower / moved:.2f} times as far, lr 0 not at all{second}"

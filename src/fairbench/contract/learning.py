"""Checks that the loss falls, that every tensor is trained, and that a learning rate has its usual meaning."""

from functools import partial
from math import hypot

from fairbench.common.checks import Severity, check
from fairbench.contract.case import SOME_STEPS, Case, around_step, moves, weights
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


def idle(trainer: Trainer, steps: int) -> str:
    """Train for some steps, and look for tensors that have a gradient and never move, or that change their kind.

    Returns:
        The fault in words; empty if there is none.
    """
    names = [name for name, p in trainer.model.named_parameters() if p.requires_grad]
    start = weights(trainer)
    kinds = _kinds(trainer)
    trained: set[str] = set()
    for step in range(1, steps + 1):
        norms, _ = around_step(trainer, partial(_gradient_norms, trainer))
        least = LEAST_GRADIENT * max(norms)
        for name, norm in zip(names, norms, strict=True):
            if norm > least:
                trained.add(name)
        for name, old, new in zip(names, kinds, _kinds(trainer), strict=True):
            if old != new:
                return f"step {step} turns {name} from {old} into {new}"
    distances = moves(start, weights(trainer))
    still = [name for name, distance in zip(names, distances, strict=True) if distance == 0 and name in trained]
    if not still:
        return ""
    return f"{len(still)} of {len(trained)} tensors with a gradient never move, such as {still[0]}"


def _gradient_norms(trainer: Trainer) -> list[float]:
    """The norm of the gradient of each tensor; 0 for a tensor without a gradient."""
    return [0.0 if p.grad is None else float(p.grad.norm()) for p in trainer.params]


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
    evidence = idle(case.training(0), case.steps)
    if evidence:
        return "fail", evidence
    return "pass", "each is trained, and keeps its dtype, shape and requires_grad"


@check(
    "unused parts",
    "warn",
    'if a training must call it, say so: needs = ["METHOD every 10 steps"] (docs/bring-your-own-optimizer.md)',
)
def unused_parts(case: Case) -> tuple[Severity, str]:
    """Every state changes, and each public method is called."""
    trainer = case.training(1)
    first = None if facts_of(case.optimizer.factory) else marks(trainer.optimizer)
    for _ in range(1, case.steps):
        trainer.train_one_step()
    found = unused(trainer.optimizer, trainer.needs.methods, first, trainer.needs.steps)
    if not found:
        return "pass", "every state changes, and each public method is called"
    severity: Severity = "warn" if found[0].startswith("state") else "note"
    return severity, ", ".join(found)


def _rates(trainer: Trainer) -> list[float]:
    """The learning rate of each parameter group."""
    return [group["lr"] for group in trainer.optimizer.param_groups]


def _moves_at(case: Case, factor: float) -> list[list[float]]:
    """The distance that each tensor moves in steps 3 and 4, before each of which the rate is multiplied by a factor."""
    trainer = case.training(2)
    distances = []
    for _ in range(2):
        for group in trainer.optimizer.param_groups:
            group["lr"] *= factor
        old = weights(trainer)
        trainer.train_one_step()
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
    whole = _moves_at(case, 1.0)
    half = _moves_at(case, 0.5)
    none = _moves_at(case, 0.0)
    is_late = half[0] == whole[0] and half[1] != whole[1]  # it applies from the second step on, as in torch's ASGD
    step = 1 if is_late else 0
    same = 0
    for at_half, at_whole in zip(half[step], whole[step], strict=True):
        if at_half == at_whole and at_whole > 0:
            same += 1
    if same:
        return "fail", f"at half the lr a step moves {same} of {len(trainer.params)} tensors as far as before"
    moved = hypot(*whole[step])
    slower = hypot(*half[step])
    still = hypot(*none[step])
    if moved == 0:
        return "fail", "a step does not move the weights"
    if still > 0:
        compared = f"{still / moved:.2g} times as far as at {case.best.lr:g}"
        return "warn", f"at lr 0 a step still moves the weights, {compared}"
    second = ", from the second step on" if is_late else ""
    return "pass", f"half the lr moves the weights {slower / moved:.2f} times as far, lr 0 not at all{second}"

"""What a suite says of training: the schedule of each arm, and the checks."""

from fairbench.common.coercion import KeyPath, Wrong
from fairbench.common.errors import unknown
from fairbench.optimizers.resolve import SCHEDULES
from fairbench.suites.schema import Suite

PRECISIONS = ("float32", "bfloat16")


def schedule_of(suite: Suite, arena: str, optimizer: str) -> tuple[str, float]:
    """The schedule of an optimizer in an arena, and its last rate as a share of the peak.

    The optimizer's own ones come first, then the arena's, then those of the training.
    """
    own, training = suite.optimizers[optimizer], suite.training
    name = own.schedule or suite.arenas[arena].schedule or training.schedule
    return name, training.min_lr if own.min_lr is None else own.min_lr


def check_training(suite: Suite) -> None:
    """Raise `Wrong` for the first error in precision, clipping or schedules."""
    training = suite.training
    if training.precision not in PRECISIONS:
        raise Wrong(("training", "precision"), unknown("precision", training.precision, PRECISIONS))
    _check_schedule(("training",), training.schedule, training.min_lr)
    for name, arena in suite.arenas.items():
        _check_schedule(("arenas", name), arena.schedule or None)
    factor = dict.fromkeys(arena.schedule for arena in suite.arenas.values() if arena.cell and arena.schedule)
    for name, optimizer in suite.optimizers.items():
        if optimizer.clip_norm is not None and not 0 <= optimizer.clip_norm < float("inf"):
            reason = f"must be finite and not negative (0 is off), got {optimizer.clip_norm}"
            raise Wrong(("optimizers", name, "clip_norm"), reason)
        _check_schedule(("optimizers", name), optimizer.schedule, optimizer.min_lr)
        if optimizer.schedule is not None and factor:
            each = f"the suite trains every optimizer with each of its schedules ({', '.join(factor)})"
            raise Wrong(("optimizers", name, "schedule"), f"does not go with that: {each}; leave one of the two out")


def _check_schedule(path: KeyPath, schedule: str | None, min_lr: float | None = None) -> None:
    if schedule is not None and schedule not in SCHEDULES:
        raise Wrong((*path, "schedule"), unknown("schedule", schedule, SCHEDULES))
    if min_lr is not None and not 0 <= min_lr < 1:
        raise Wrong((*path, "min_lr"), f"must be a share of the peak in [0, 1), got {min_lr}")

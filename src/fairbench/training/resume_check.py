"""A test whether a training resumes from a checkpoint as if it had never stopped."""

import io
import pickle
import re
from collections.abc import Callable

from fairbench.training.checkpoint import read_state, write_state
from fairbench.training.digests import content_digest
from fairbench.training.trainer import Trainer
from fairbench.training.unsaved import changed


def resume_check(trainer: Trainer, done: int, steps: int) -> Callable[[], str]:
    """Save a training after `done` steps to a checkpoint in memory, and continue it.

    Args:
        trainer: the training.
        done: the number of steps that it has done.
        steps: the number of further steps. On a GPU without deterministic algorithms no two runs end with the same
            bits; it must be 0 there.

    Returns:
        A function that resumes a second training from the checkpoint. It returns the reason if the two trainings end
        differently; empty if they end the same. The first trainer may be freed before the call.
    """
    spec = trainer.spec
    slot = trainer.slot
    file = io.BytesIO()
    try:
        write_state(file, {}, trainer.numeric_state())
        before = trainer.unsaved()
        digests = _continue(trainer, done, steps)
        after = trainer.unsaved()
    except Exception as error:  # an optimizer may raise anything
        failure = f"its state cannot be saved: {type(error).__name__}: {error}"
        return lambda: failure

    def resume() -> str:
        second = Trainer(spec, slot)
        try:
            file.seek(0)
            second.load_numeric_state(read_state(file, {}, second.device))
            resumed = _continue(second, done, steps)
        except pickle.UnpicklingError as error:
            return _refusal(error)
        except Exception as error:
            return f"its state cannot be loaded: {type(error).__name__}: {error}"
        if steps:
            lost = changed(before, after) or changed(after, second.unsaved())
            if lost:
                return lost
        differing = [name for name, digest in digests.items() if resumed[name] != digest]
        if differing:
            return f"after it resumed from a checkpoint, these parts differ: {', '.join(differing)}"
        return ""

    return resume


def _refusal(error: pickle.UnpicklingError) -> str:
    """The reason why torch does not read a state, with the name of the class that it refuses."""
    reason = "torch.load(weights_only=True) refuses its state, which holds more than tensors and plain values"
    refused = re.search(r"GLOBAL (\S+)", str(error))
    return f"{reason} ({refused[1]})" if refused else reason


def _continue(trainer: Trainer, done: int, steps: int) -> dict[str, str]:
    """Take further steps. Returns a digest of each part of the state after them."""
    for step in range(done + 1, done + steps + 1):
        trainer.train_one_step(step, sampled=True)
        trainer.mechanism.read(step)
    return {name: content_digest(part) for name, part in trainer.numeric_state().items()}

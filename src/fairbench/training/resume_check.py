"""Does a training resume from a checkpoint as if it had never stopped? Tested by doing it."""

import io
import pickle
import re
from collections.abc import Sized
from dataclasses import dataclass

from fairbench.optimizers.state import is_plain, own_attributes
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.checkpoint import content_digest, read_state, write_state
from fairbench.training.place import Place
from fairbench.training.trainer import Trainer


@dataclass(frozen=True)
class Continuation:
    """A training that was saved and continued, with which a resumed one is compared.

    Attributes:
        spec: the trial.
        place: where it ran.
        saved: the checkpoint.
        done: steps before the checkpoint.
        steps: steps after it.
        unsaved: attributes of the optimizer that a checkpoint leaves out, with the size of each.
        digests: of the parts of the state after those steps.
    """

    spec: TrialSpec
    place: Place
    saved: bytes
    done: int
    steps: int
    unsaved: dict[str, int]
    digests: dict[str, str]


def save_and_continue(trainer: Trainer, done: int, steps: int) -> Continuation | str:
    """Save a training and continue it; returns the reason if it cannot be saved.

    Args:
        trainer: the training.
        done: steps so far.
        steps: further steps; 0 on a GPU without deterministic algorithms, where no two runs end with the same bits.
    """
    file = io.BytesIO()
    try:
        write_state(file, {}, trainer.numeric_state())
        unsaved = _unsaved(trainer)
        digests = _continue(trainer, done, steps)
    except Exception as error:  # an optimizer may raise anything
        return f"its state cannot be saved: {type(error).__name__}: {error}"
    return Continuation(trainer.spec, trainer.place, file.getvalue(), done, steps, unsaved, digests)


def restart_reason(first: Continuation | str) -> str:
    """Why a training that resumes from the checkpoint of the first ends differently; empty if it ends the same.

    Args:
        first: the training, or the reason why it cannot be saved.
    """
    if isinstance(first, str):
        return first
    second = Trainer(first.spec, first.place)
    try:
        second.load_numeric_state(read_state(io.BytesIO(first.saved), {}, second.device))
        lost = [name for name, size in first.unsaved.items() if _unsaved(second).get(name) != size]
        digests = _continue(second, first.done, first.steps)
    except pickle.UnpicklingError as error:
        refused = re.search(r"GLOBAL (\S+)", str(error))
        name = f" ({refused[1]})" if refused else ""
        return f"torch.load(weights_only=True) refuses its state, which holds more than tensors and plain values{name}"
    except Exception as error:
        return f"its state cannot be loaded: {type(error).__name__}: {error}"
    differing = [name for name, digest in first.digests.items() if digests[name] != digest]
    if differing and lost:
        return f"it keeps {', '.join(lost)} on itself and not in its state"
    return f"after it resumed from a checkpoint, these parts differ: {', '.join(differing)}" if differing else ""


def _continue(trainer: Trainer, done: int, steps: int) -> dict[str, str]:
    """Take steps; returns digests of the parts of the state."""
    for step in range(done + 1, done + steps + 1):
        trainer.train_one_step(step, sampled=True)
        trainer.mechanism.read(step)
    return {name: content_digest(part) for name, part in trainer.numeric_state().items()}


def _unsaved(trainer: Trainer) -> dict[str, int]:
    """The attributes of the optimizer that a checkpoint leaves out, with the size of each."""
    attributes = own_attributes(trainer.optimizer).items()
    return {name: len(x) if isinstance(x, Sized) else 1 for name, x in attributes if not is_plain(x)}

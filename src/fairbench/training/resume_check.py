"""Whether a training resumes from a checkpoint as if it had never stopped; tested by doing it."""

import io
import pickle
import re
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

from fairbench.optimizers.state import is_plain, own_attributes
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.checkpoint import content_digest, read_state, write_state
from fairbench.training.place import Place
from fairbench.training.trainer import Trainer


@dataclass(frozen=True)
class Continuation:
    """A training that was saved and continued; another one is compared with it.

    Attributes:
        spec: the trial.
        place: where it ran.
        saved: what was saved, as in a file.
        done: steps done by then.
        steps: steps taken since then.
        kept: the attributes of its optimizer other than plain values, with the size of each.
        after: digests of its parts after those steps.
    """

    spec: TrialSpec
    place: Place
    saved: bytes
    done: int
    steps: int
    kept: dict[str, int]
    after: dict[str, str]


def continuation(trainer: Trainer, done: int, steps: int) -> Continuation | str:
    """Save a training and continue it; returns the reason if it cannot be saved.

    Args:
        trainer: the training.
        done: the steps done so far.
        steps: further steps; 0 on a GPU without deterministic algorithms, where no two runs end with the same bits.
    """
    file = io.BytesIO()
    try:
        write_state(file, {}, trainer.numeric_state())
        kept = _kept(trainer)
        after = _continue(trainer, done, steps)
    except Exception as error:  # an optimizer may raise anything
        return f"its state cannot be saved: {type(error).__name__}: {error}"
    return Continuation(trainer.spec, trainer.place, file.getvalue(), done, steps, kept, after)


def differs(first: Continuation) -> str:
    """Why another training, from what the first one saved, does not end as that one did; empty if it does."""
    second = Trainer(first.spec, first.place)
    try:
        second.load_numeric_state(read_state(io.BytesIO(first.saved), {}, second.device))
        lost = [name for name, holds in first.kept.items() if _kept(second).get(name) != holds]
        after = _continue(second, first.done, first.steps)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f" ({named[1]})" if named else ""
        return f"torch.load(weights_only=True) refuses its state, which holds more than tensors and plain values{what}"
    except Exception as error:
        return f"its state cannot be loaded: {type(error).__name__}: {error}"
    others = [name for name, digest in first.after.items() if after[name] != digest]
    if others and lost:
        return f"it keeps {', '.join(lost)} on itself and not in its state"
    return f"resumed from a checkpoint, it has another {', '.join(others)}" if others else ""


def _continue(trainer: Trainer, done: int, steps: int) -> dict[str, str]:
    """Take steps; returns digests of the training's parts."""
    for step in range(done + 1, done + steps + 1):
        trainer.train_one_step(step, sampled=True)
        trainer.mechanism.read(step)
    return {name: content_digest(part) for name, part in trainer.numeric_state().items()}


def _kept(trainer: Trainer) -> dict[str, Any]:
    """The attributes of its optimizer other than plain values, with the size of each."""
    own = own_attributes(trainer.optimizer)
    return {name: len(x) if isinstance(x, Sized) else 1 for name, x in own.items() if not is_plain(x) and x is not None}

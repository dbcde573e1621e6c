"""Does a training go on from a checkpoint as if it had never stopped? It is tried out, whatever keeps which state."""

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
from fairbench.training.trainer import Training


@dataclass(frozen=True)
class Continuation:
    """A training that was saved and went on; it may be gone when another one is to do the same.

    Attributes:
        spec: the trial.
        place: where it ran.
        saved: what was saved, as in a file.
        done: steps done by then.
        steps: steps taken since then.
        kept: of what its optimizer keeps on itself beside plain values, how much each holds.
        after: digests of its parts after those steps.
    """

    spec: TrialSpec
    place: Place
    saved: bytes
    done: int
    steps: int
    kept: dict[str, int]
    after: dict[str, str]


def continuation(training: Training, done: int, steps: int) -> Continuation | str:
    """Save a training and have it go on; returns why it cannot be saved if it cannot.

    Args:
        training: the training.
        done: steps that it has done.
        steps: steps that it shall do; a GPU that adds in any order does none, since none ends with the same bits.
    """
    file = io.BytesIO()
    try:
        write_state(file, {}, training.state_dict())
        kept = _kept(training)
        after = _go_on(training, done, steps)
    except Exception as error:  # an optimizer may raise anything
        return f"its state cannot be saved: {type(error).__name__}: {error}"
    return Continuation(training.spec, training.place, file.getvalue(), done, steps, kept, after)


def differs(first: Continuation) -> str:
    """Why another training, from what the first one saved, does not end as that one did; empty if it does."""
    second = Training(first.spec, first.place)
    try:
        second.load_state_dict(read_state(io.BytesIO(first.saved), {}, second.device))
        lost = [name for name, holds in first.kept.items() if _kept(second).get(name) != holds]
        after = _go_on(second, first.done, first.steps)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f" ({named[1]})" if named else ""
        return f"torch.load(weights_only=True) refuses its state, which holds more than tensors and plain values{what}"
    except Exception as error:
        return f"its state cannot be loaded: {type(error).__name__}: {error}"
    others = [name for name, digest in first.after.items() if after[name] != digest]
    if others and lost:
        return f"it keeps {', '.join(lost)} on itself and not in its state"
    return f"from a checkpoint it goes on with another {', '.join(others)}" if others else ""


def _go_on(training: Training, done: int, steps: int) -> dict[str, str]:
    """Take steps; returns digests of the training's parts."""
    for step in range(done + 1, done + steps + 1):
        training.train_step(step, sampled=True)
        training.mechanism.read(step)
    return {name: content_digest(part) for name, part in training.state_dict().items()}


def _kept(training: Training) -> dict[str, Any]:
    """What its optimizer keeps on itself beside plain values, and how much each holds."""
    own = own_attributes(training.optimizer)
    return {name: len(x) if isinstance(x, Sized) else 1 for name, x in own.items() if not is_plain(x) and x is not None}

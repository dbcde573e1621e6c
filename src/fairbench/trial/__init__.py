"""The side of a training program: the trial of a study that it is part of.

    trial = fairbench.trial.current(steps=2000)
    optimizer = trial.optimizer(model, lr=3e-4)
    trial.log(step, train_loss=loss)
    trial.result(val={"loss": val_loss}, test={"loss": test_loss})

Outside of a study `current` gives the values of the program, `optimizer` is AdamW, and the rest does nothing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from fairbench.arenas.program import ABOUT, FOLDER
from fairbench.trial.base import Trial

__all__ = ["Trial", "current"]


def current(steps: int = 0, seed: int = 0, folder: str | Path = ".") -> Trial:
    """The trial that this process is part of.

    Args:
        steps, seed, folder: the values outside of a study, where nothing else is known.

    >>> trial = fairbench.trial.current(steps=100)
    >>> trial.active, trial.steps
    (False, 100)
    """
    if found := os.environ.get(FOLDER):
        from fairbench.trial.in_study import TrialInStudy  # it loads torch

        return TrialInStudy(Path(found), json.loads((Path(found) / ABOUT).read_text()))
    return Trial(Path(folder), steps, seed)

"""How trials are prepared and run: by fairbench's own loop (`builtin_loop`), or by a user's program (`program`).

Each module has the functions `measured_arena`, `first_steps` and `run_trial`; nothing else asks which of the two it is.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType

from fairbench.arenas.program import TASK
from fairbench.study.record import WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot


def training_of(task: str) -> ModuleType:
    """The module for the trials of a task; it loads torch."""
    name = "program" if task == TASK else "builtin_loop"
    return import_module(f"{__name__}.{name}")


def run_trial(send: Callable[..., None], spec: TrialSpec, slot: DeviceSlot) -> WholeRecord:
    """Run a trial and return its record.

    While it runs, the trial calls `send` with "progress", the number of steps done, and the training loss.

    Raises:
        Paused: this process received SIGTERM.
        UsageError: it ran code that its spec does not contain.
    """
    training = training_of(spec.arena.task)
    record: WholeRecord = training.run_trial(spec, slot, partial(send, "progress"))
    return record

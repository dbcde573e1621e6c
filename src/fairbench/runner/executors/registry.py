"""The executors that run the trials of a study, by name."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from fairbench.runner.devices import RunOptions
from fairbench.runner.executors.executor import CALL_LIMIT, Executor
from fairbench.runner.observers import Observer

EXECUTORS = {
    "processes": "fairbench.runner.executors.local:executor_of_study",
    "ray": "fairbench.runner.executors.ray.start:executor_of_study",
}
"""The function that makes each executor, by its module, which is loaded when a study uses it.

It gets the options of the run, the observer of the study, the modules that processes of trials load, and the seconds
that a call may take.
"""


def executor_for(options: RunOptions, checkpoints: Path, modules: Sequence[str], observer: Observer) -> Executor:
    """The executor that the options of a study name, for trials whose checkpoints are in this folder.

    Args:
        options: see `options_of_study`.
        checkpoints: the folder of the checkpoints.
        modules: the modules that processes of trials load.
        observer: the observer of the study.
    """
    folder = str(checkpoints)
    every = options.checkpoint_every or 0.0
    slots = [replace(slot, checkpoints=folder, checkpoint_every=every) for slot in options.slots]
    call_limit = max(options.trial_timeout, CALL_LIMIT)
    return make_executor(options.executor, replace(options, slots=slots), observer, modules, call_limit)


def make_executor(name: str, options: RunOptions, observer: Observer, modules: Sequence[str], limit: float) -> Executor:
    """Make the executor with a name for a study. A call of it may take `limit` seconds."""
    module, _, function = EXECUTORS[name].partition(":")
    make: Callable[[RunOptions, Observer, Sequence[str], float], Executor] = getattr(import_module(module), function)
    return make(options, observer, modules, limit)

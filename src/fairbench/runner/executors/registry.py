"""The executors that run the trials of a study, by name."""

from collections.abc import Callable, Sequence
from importlib import import_module

from fairbench.runner.devices import RunOptions
from fairbench.runner.executors.executor import Executor
from fairbench.runner.observers import Observer

EXECUTORS = {
    "processes": "fairbench.runner.executors.local:executor_of_study",
    "ray": "fairbench.runner.executors.ray.start:executor_of_study",
}
"""The function that makes each executor, by its module, which is loaded when a study uses it.

It gets the options of the run, the observer of the study, the modules that processes of trials load, and the seconds
that a call may take.
"""


def make_executor(name: str, options: RunOptions, observer: Observer, preload: Sequence[str], limit: float) -> Executor:
    """Make the executor with a name for a study. A call of it may take `limit` seconds."""
    module, _, function = EXECUTORS[name].partition(":")
    make: Callable[[RunOptions, Observer, Sequence[str], float], Executor] = getattr(import_module(module), function)
    return make(options, observer, preload, limit)

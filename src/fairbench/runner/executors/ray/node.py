"""The node side of the Ray executor: each trial runs in a separate process, as it does without Ray."""

import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import ray

from fairbench.common.errors import UsageError
from fairbench.common.processes import cores
from fairbench.runner.executors.executor import CALL_LIMIT, Ended, PausedTrial
from fairbench.runner.executors.local import ProcessExecutor, ReportProgress
from fairbench.study.environments import environment_differences
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot

EXCHANGE = 1.0
"""Seconds between two exchanges of a running trial with its driver."""
Reply = dict[str, Any]
"""The reply of a node: its `node` id and `host`, and one more entry.

This is the `record` of a trial, the `result` of a call, the `usage` error of a call, or why the node is `rejected`.
"""


@dataclass(frozen=True)
class Work:
    """The part of a study that nodes need.

    Attributes:
        folder: the driver's working directory, to which paths are relative; a node without it uses its default.
        sentinel: a file that the driver has made among the checkpoints; a node that sees it shares their folder.
        environment: versions, device and revision that a node must have; None for any.
    """

    slot: DeviceSlot
    preload: tuple[str, ...]
    folder: str = "."
    sentinel: str = ""
    environment: Mapping[str, str] | None = None


class ProgressActor:
    """A Ray actor on the driver's node: it carries progress to the driver, and the order to stop to the trials."""

    def __init__(self) -> None:
        self._steps: dict[str, tuple[int, float]] = {}
        self._unshared: set[str] = set()
        self._pausing = False

    def report(self, trial: str, *progress: tuple[int, float]) -> bool:
        """Store the last step and loss of a trial, if it has a new one. Returns whether the trial must be paused."""
        self._steps.update((trial, last) for last in progress)
        return self._pausing

    def report_unshared(self, host: str) -> None:
        """Note that a host does not see the folder of checkpoints."""
        self._unshared.add(host)

    def collect(self) -> tuple[dict[str, tuple[int, float]], set[str]]:
        """The reports since the last call: step and loss by trial, and the hosts that do not see the checkpoints."""
        steps = self._steps
        unshared = self._unshared
        self._steps = {}
        self._unshared = set()
        return steps, unshared

    def pause(self) -> None:
        """Answer from now on that trials must be paused."""
        self._pausing = True


def run_on_node(work: Work, spec: TrialSpec, limit: float, actor: Any) -> Reply:
    """Run a trial on this node, or reject it if the environment differs or a process cannot start."""
    try:
        if work.environment:
            here = _node_environment(work.slot.device, work.preload)
            differing = environment_differences([work.environment], here)
            if differing:
                return _reply(rejected=f"its environment is not the study's; --allow-mixed accepts it\n{differing}")
        return _reply(record=_record(work, spec, limit, actor))
    except (UsageError, OSError) as error:  # a full disk, too many processes: not a failure of the trial
        return _reply(rejected=str(error))


def call_on_node(work: Work, limit: float, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Reply:
    """Call a module's function on this node, in a separate process; the reply has its result or its usage error."""
    try:
        with _processes(work, limit=limit) as executor:
            return _reply(result=executor.call(function, *arguments))
    except UsageError as error:
        return _reply(usage=error)


@cache
def _node_environment(device: str, preload: tuple[str, ...]) -> dict[str, str]:
    """The versions, the device and the revision of this node, which do not change while this process runs."""
    with _processes(Work(DeviceSlot(device), preload)) as executor:
        return dict(executor.call(read_environment, device))


def read_environment(device: str) -> dict[str, str]:
    """The versions, the device and the revision of this process. It loads torch."""
    from fairbench.training.environment import environment

    return environment(device)


def _record(work: Work, spec: TrialSpec, limit: float, actor: Any) -> Ended:
    """Run a trial in a process of this node, and exchange progress with the driver while it runs."""
    if work.slot.checkpoints and not Path(work.sentinel).exists():
        # the driver could not resume from checkpoints in this folder
        actor.report_unshared.remote(socket.gethostname())
        work = replace(work, slot=replace(work.slot, checkpoints=""))

    latest: list[tuple[int, float]] = []

    def report(spec: TrialSpec, step: int, loss: float) -> None:
        latest[:] = [(step, loss)]  # only the last one is sent

    with _processes(work, report) as executor:
        if answer(actor.report.remote(spec.id)):  # the driver is stopping; the task waited in the queue
            return PausedTrial(spec.id)
        executor.submit(spec, limit)
        while not (ended := executor.collect(EXCHANGE)):
            if answer(actor.report.remote(spec.id, *latest)):
                ended = executor.pause()
                break
            latest.clear()
        return ended[0]  # this executor runs one trial


def answer(reference: Any) -> Any:
    """The value of a reference. While `ray.get` waits, it would release the core of the trial and lose signals."""
    return reference.future().result()


def _processes(
    work: Work, report: ReportProgress = lambda spec, step, loss: None, limit: float = CALL_LIMIT
) -> ProcessExecutor:
    """An executor with one slot on this node. Its process server lives as long as this Ray worker."""
    vars(sys.modules["__main__"]).pop("__file__", None)  # otherwise every process would run Ray's worker script
    if Path(work.folder).is_dir():
        os.chdir(work.folder)
    slot = replace(work.slot, alone=work.slot.alone and not _crowded())
    return ProcessExecutor([slot], report, work.preload, limit)


def _crowded() -> bool:
    """Whether Ray schedules more trials on this machine than it has cores."""
    here = ray.get_runtime_context().get_node_id()
    nodes = [node for node in ray.nodes() if node["Alive"]]
    host = next(node["NodeManagerHostname"] for node in nodes if node["NodeID"] == here)
    scheduled = sum(node["Resources"].get("CPU", 0) for node in nodes if node["NodeManagerHostname"] == host)
    return bool(scheduled > cores())


def _reply(**parts: Any) -> Reply:
    """A reply of this node with some entries."""
    return {"node": ray.get_runtime_context().get_node_id(), "host": socket.gethostname(), **parts}

"""What a node of a Ray cluster does: it runs a trial in a process of its own, as every machine would without Ray."""

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
from fairbench.runner.executors.base import Report, paused
from fairbench.runner.executors.local import CALL_LIMIT, ProcessExecutor
from fairbench.runner.run_options import cores
from fairbench.study.records import Record
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.place import Checkpointing, Place

LISTEN = 1.0
"""Seconds after which a running trial and its driver hear of each other."""
Reply = dict[str, Any]
"""`node` and `host`, and one of: `record` of a trial, `result` of a call, `usage` error of it, why it is `unfit`."""


@dataclass(frozen=True)
class Work:
    """What nodes need to know of a study.

    Attributes:
        place: where trials run on a node.
        preload: modules that they need.
        folder: the driver's working directory, where relative paths begin; where it is missing, the node's own.
        checkpointing: where checkpoints are written; None for none.
        mark: a file that the driver has put there: who sees it shares the folder.
        ground: versions, device and revision that a trial must meet; None for any.
    """

    place: Place
    preload: tuple[str, ...]
    folder: str = "."
    checkpointing: Checkpointing | None = None
    mark: str = ""
    ground: Mapping[str, str] | None = None


class Board:
    """Where trials tell the driver of themselves, and hear whether to stop: an actor beside the driver."""

    def __init__(self) -> None:
        self._steps: dict[str, tuple[int, float]] = {}
        self._blind: set[str] = set()
        self._pausing = False

    def tell(self, trial: str, *progress: tuple[int, float]) -> bool:
        """Put down how far a trial is; returns whether it shall write a checkpoint and stop."""
        self._steps.update((trial, last) for last in progress)
        return self._pausing

    def tell_blind(self, host: str) -> None:
        """Put down that a machine does not see the driver's folder of checkpoints."""
        self._blind.add(host)

    def heard(self) -> tuple[dict[str, tuple[int, float]], set[str]]:
        """What was put down since the last time: step and loss of trials; machines that see no checkpoints."""
        heard = self._steps, self._blind
        self._steps, self._blind = {}, set()
        return heard

    def pause(self) -> None:
        """From now on every trial shall stop."""
        self._pausing = True


def run_there(work: Work, spec: TrialSpec, limit: float, board: Any) -> Reply:
    """Run a trial on this node, unless the node is unfit for it."""
    try:
        if work.ground and (differing := differences(work.ground, _ground(work.place.device, work.preload))):
            return _reply(unfit=f"it is other ground than the study's; --allow-mixed takes it\n{differing}")
        return _reply(record=_record(work, spec, limit, board))
    except (UsageError, OSError) as error:  # a full disk, no room for processes: not the trial's fault
        return _reply(unfit=str(error))


def call_there(work: Work, limit: float, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Reply:
    """Call a function of a module on this node, in a process of its own."""
    try:
        with _processes(work, limit=limit) as executor:
            return _reply(result=executor.call(function, *arguments))
    except UsageError as error:
        return _reply(usage=str(error))


@cache
def _ground(device: str, preload: tuple[str, ...]) -> dict[str, str]:
    """Versions, device and revision of this node, which stay what they are."""
    with _processes(Work(Place(device), preload)) as executor:
        return dict(executor.call(read_ground, device))


def read_ground(device: str) -> dict[str, str]:
    """Versions, device and revision of this process, which has then loaded torch."""
    from fairbench.training.environment import environment

    return environment(device)


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """What is not as expected, a line for each fact."""
    wrong = [name for name in expected if found.get(name) != expected[name]]
    return "\n".join(f"  {name}: {found.get(name)}, not {expected[name]}" for name in wrong)


def _record(work: Work, spec: TrialSpec, limit: float, board: Any) -> Record:
    """The record of a trial that is run here."""
    checkpointing = work.checkpointing
    if checkpointing and not Path(work.mark).exists():
        board.tell_blind.remote(socket.gethostname())
        checkpointing = None

    news: list[tuple[int, float]] = []

    def report(spec: TrialSpec, step: int, loss: float) -> None:
        news[:] = [(step, loss)]

    with _processes(work, report, checkpointing) as executor:
        if answer(board.tell.remote(spec.id)):  # the driver stops while this has waited for its turn
            return paused(spec)
        executor.submit(spec, limit)
        while not (ended := executor.collect(LISTEN)):
            if answer(board.tell.remote(spec.id, *news)):
                ended = executor.pause()
                break
            news.clear()
        return ended[0]


def answer(reference: Any) -> Any:
    """What somebody answers, without `ray.get`: Ray would meanwhile give a trial's core away, and lose signals."""
    return reference.future().result()


def _processes(
    work: Work,
    report: Report = lambda spec, step, loss: None,
    checkpointing: Checkpointing | None = None,
    limit: float = CALL_LIMIT,
) -> ProcessExecutor:
    """The executor of this node; its server of processes lives as long as this worker of Ray."""
    vars(sys.modules["__main__"]).pop("__file__", None)  # else every process would run Ray's worker once more
    if Path(work.folder).is_dir():
        os.chdir(work.folder)
    place = replace(work.place, alone=work.place.alone and not _crowded())
    return ProcessExecutor([place], report, work.preload, limit, checkpointing=checkpointing)


def _crowded() -> bool:
    """Whether Ray gives this machine more trials than it has cores."""
    here = ray.get_runtime_context().get_node_id()
    nodes = [node for node in ray.nodes() if node["Alive"]]
    host = next(node["NodeManagerHostname"] for node in nodes if node["NodeID"] == here)
    return bool(sum(node["Resources"].get("CPU", 0) for node in nodes if node["NodeManagerHostname"] == host) > cores())


def _reply(**parts: Any) -> Reply:
    """A reply that says where it is from."""
    return {"node": ray.get_runtime_context().get_node_id(), "host": socket.gethostname(), **parts}

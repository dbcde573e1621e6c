"""Trials in processes of their own, one thread each: no trial meets anything that another one has left.

Processes are forked from a server that has loaded the heavy libraries once and has done no arithmetic, so that a new
one starts at once and shares the libraries' memory with the others; without workers, from this process, which then
loads the libraries itself.
"""

import gc
import importlib
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from multiprocessing import forkserver
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType
from typing import Any

from fairbench.common.errors import OutOfMemory, UsageError
from fairbench.runner.executors.base import Report, failure, paused, run_trial
from fairbench.runner.executors.worker_handle import GRACE, Process
from fairbench.study.records import Record
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.place import Checkpointing, Place

FROZEN = "fairbench.runner.executors.frozen"
CALL_LIMIT = 600.0
"""Seconds that a call may take: to load data and build models, or to take two steps in every arena."""
PATIENCE = 120.0
"""Seconds that trials have to write a checkpoint: the step that they are in comes to its end first."""


@dataclass(frozen=True)
class _Job:
    """A trial that has been submitted.

    Attributes:
        spec: the trial.
        limit: seconds that it may take.
        checkpointing: where it goes on from and what it keeps; None for neither.
        place: the place that it takes.
        retried: whether it has run out of memory beside others, and has the device for itself now.
    """

    spec: TrialSpec
    limit: float
    checkpointing: Checkpointing | None
    place: Place
    retried: bool = False


class ProcessExecutor:
    """Runs trials in processes, each in a fresh one; whatever a trial does to its process is that trial's failure.

    Args:
        places: where trials run at the same time, one at each.
        report: told of the running trials.
        preload: modules that the trials will need.
        call_limit: seconds that a call may take.
        server: whether processes are forked from a server, else from this process.
        checkpointing: where trials write checkpoints and go on from; None for nowhere.
        oom: what becomes of a trial that runs out of a GPU's memory: "fail", or "retry" once nobody else is there.
    """

    def __init__(
        self,
        places: Sequence[Place],
        report: Report,
        preload: Sequence[str] = (),
        call_limit: float = CALL_LIMIT,
        server: bool = True,
        checkpointing: Checkpointing | None = None,
        oom: str = "fail",
    ) -> None:
        self._free, self._report, self._preload = list(reversed(places)), report, preload
        self._call_limit, self._checkpointing, self._oom = call_limit, checkpointing, oom
        self._start = "forkserver" if server else "fork"
        self._running: dict[str, tuple[_Job, Process]] = {}
        self._waiting: list[_Job] = []  # for a device of their own
        self._started = 0

    def __enter__(self) -> "ProcessExecutor":
        """Load the libraries, or have the server load them with its first process."""
        if self._start not in multiprocessing.get_all_start_methods():
            raise UsageError("this system cannot fork processes, which keeps trials apart; use Linux, macOS or WSL")
        self._folder = tempfile.TemporaryDirectory(prefix="fairbench-")
        if self._start == "forkserver":
            forkserver.set_forkserver_preload([*self._preload, FROZEN])
        else:
            for name in self._preload:
                importlib.import_module(name)
            gc.freeze()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop what still runs."""
        for _, process in self._running.values():
            process.end()
        if self._start == "fork":
            gc.unfreeze()
        self._folder.cleanup()

    def _process(self, job: Callable[..., Any], arguments: tuple[Any, ...], limit: float) -> Process:
        self._started += 1
        return Process(self._start, Path(self._folder.name) / str(self._started), job, arguments, limit)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of a module returns, in a process of its own.

        Raises:
            UsageError: the function raised one, or did not come to its end.
        """
        process = self._process(_call, (function, *arguments), self._call_limit)
        try:
            if not wait([process.pipe], process.limit):
                late = f"no end after {process.limit:.0f} s; this is what it was doing"
                raise UsageError(f"{function.__name__} of {_names(arguments)}: {late}\n{process.stuck_at()}")
            message = process.hear()
            cause = "" if message else process.cause_of_death()
        finally:
            printed = process.end()
        if message is None:
            raise UsageError(f"{function.__name__} of {_names(arguments)}: {cause}\n{printed}".rstrip())
        if message[0] == "paused":
            raise UsageError(f"{function.__name__} of {_names(arguments)}: somebody ended its process (SIGTERM)")
        if message[0] == "raised":
            usage = message[1] == UsageError.__name__
            raise UsageError(message[2] if usage else f"{function.__name__} of {_names(arguments)}:\n{message[3]}")
        return message[1]

    def has_room(self) -> bool:
        """Whether a further trial would start at once."""
        return self._room() is not None

    def _room(self) -> Place | None:
        """The next place that is free, on a device that no trial wants or has for itself."""
        running = (job for job, _ in self._running.values() if job.retried)
        closed = {job.place.device for job in (*self._waiting, *running)}
        return next((place for place in reversed(self._free) if place.device not in closed), None)

    def submit(self, spec: TrialSpec, limit: float, resumes: bool = True) -> None:
        """Start a trial that may take so many seconds; `resumes` says whether it can go on from a checkpoint."""
        place = self._room()
        assert place is not None
        self._free.remove(place)
        self._run(_Job(spec, limit, self._checkpointing if resumes else None, place))

    def _run(self, job: _Job) -> None:
        place = replace(job.place, alone=job.place.alone or job.retried)
        self._running[job.spec.id] = job, self._process(run_trial, (job.spec, place, job.checkpointing), job.limit)

    def collect(self, patience: float = inf) -> list[Record]:
        """Pass on what the trials say until one or more have ended, for so many seconds at most: their records."""
        records: list[Record] = []
        until = time.monotonic() + patience
        while not records and self._running and (now := time.monotonic()) < until:
            every = list(self._running.values())
            next_deadline = min(process.deadline for _, process in every)
            heard = wait([process.pipe for _, process in every], max(min(next_deadline, until) - now, 0.0))
            for job, process in every:
                if process.pipe in heard:
                    records += self._hear(job, process)
                elif process.deadline < time.monotonic():
                    records.append(self._too_long(job, process))
            self._retry()
        return records

    def pause(self) -> list[Record]:
        """Have every trial write a checkpoint and stop: what `paused` says of each, or its record if it ended."""
        self._oom = "fail"  # who runs out of memory now does not begin again
        records = [paused(job.spec) for job in self._waiting]
        self._free += [job.place for job in self._waiting]
        self._waiting.clear()
        for _, process in self._running.values():
            process.pause()
        until = time.monotonic() + PATIENCE
        while self._running and time.monotonic() < until:
            records += self.collect(until - time.monotonic())
        for job, process in list(self._running.values()):
            self._leave(job)
            process.end()
            records.append(paused(job.spec, f"its step did not come to an end within {PATIENCE:.0f} s"))
        return records

    def _hear(self, job: _Job, process: Process) -> list[Record]:
        """One message of a trial: progress, a record, a pause, or the end of the pipe when the process has died."""
        message, spec = process.hear(), job.spec
        if message is not None and message[0] == "progress":
            self._report(spec, *message[1:])
            return []
        if message and message[:2] == ["raised", OutOfMemory.__name__] and self._may_retry(job):
            del self._running[spec.id]
            process.end(GRACE)
            self._waiting.append(replace(job, retried=True))
            return []
        self._leave(job)
        if message is None:
            record = failure(spec, "WorkerDied", process.cause_of_death(), "")
        elif message[0] == "paused":
            record = paused(spec, message[1])
        elif message[0] == "done" and _is_of(message[-1], spec):
            record = message[-1]
        elif message[0] == "raised":
            record = failure(spec, *message[1:])
        else:
            record = failure(spec, "WrongRecord", f"not the record of this trial but {str(message)[:200]}", "")
        return [{**record, "output": process.end(GRACE)}]

    def _may_retry(self, job: _Job) -> bool:
        """Whether a trial that ran out of memory may have found others on its device, and was not alone there yet."""
        return self._oom == "retry" and not job.retried and not job.place.alone

    def _retry(self) -> None:
        """Start those that have waited for a device of their own."""
        for job in list(self._waiting):
            if all(other.place.device != job.place.device for other, _ in self._running.values()):
                self._waiting.remove(job)
                self._run(job)

    def _leave(self, job: _Job) -> None:
        """Have the place of a trial free again."""
        del self._running[job.spec.id]
        self._free.append(job.place)

    def _too_long(self, job: _Job, process: Process) -> Record:
        """End a trial whose time is over."""
        self._leave(job)
        doing = process.stuck_at()
        message = f"no end after {process.limit:.0f} s; --trial-timeout gives it more"
        return {**failure(job.spec, "TimedOut", message, doing), "output": doing}


def _call(tell: Callable[..., None], function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _names(arguments: tuple[Any, ...]) -> str:
    """The arguments that are names."""
    return ", ".join(str(getattr(x, "name", x)) for x in arguments if isinstance(x, str) or hasattr(x, "name"))


def _is_of(record: Any, spec: TrialSpec) -> bool:
    """Whether something is the record of this trial."""
    return isinstance(record, dict) and record.get("id") == spec.id and record.get("spec") == spec.as_stored

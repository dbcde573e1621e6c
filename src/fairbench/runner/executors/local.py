"""Trials in separate processes, with one thread each: no trial sees the state of another one.

Processes are forked from a server that has loaded the heavy libraries and has done no arithmetic: a new one starts at
once and shares the libraries' memory.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fairbench.common.errors import CallFailed, ProgramError, UsageError
from fairbench.common.processes import cores
from fairbench.runner.devices import RunOptions
from fairbench.runner.executors.executor import CALL_LIMIT, NO_CHANGES, PAUSE_LIMIT, Ended, PausedTrial
from fairbench.runner.executors.worker_handle import GRACE, Process
from fairbench.runner.observers import Observer
from fairbench.runner.trainings import run_trial
from fairbench.study.record import WholeRecord, failed
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot

ReportProgress = Callable[[TrialSpec, int, float], None]
"""Called with the progress of a running trial: steps done, training loss."""


class _Running(NamedTuple):
    """A trial that runs: the slot that it occupies, and its process."""

    spec: TrialSpec
    slot: DeviceSlot
    process: Process


class ProcessExecutor:
    """Runs each trial in a new process, in a `with` block. A trial that breaks its process fails alone.

    One trial runs at each slot; timing trials run at the first slot. Processes are forked from a server that has loaded
    the modules of `preload`.
    """

    def __init__(
        self,
        slots: Sequence[DeviceSlot],
        report: ReportProgress = lambda spec, step, loss: None,
        preload: Sequence[str] = (),
        call_limit: float = CALL_LIMIT,
    ) -> None:
        self._slots = slots
        self._free = list(reversed(slots))
        self._report = report
        self._preload = preload
        self._call_limit = call_limit
        self._running: dict[str, _Running] = {}
        self._processes: list[Process] = []
        self._started = 0  # the number of processes so far, which numbers the files of their output

    def __enter__(self) -> "ProcessExecutor":
        if "fork" not in multiprocessing.get_all_start_methods():
            raise UsageError("this system cannot fork processes, which isolates trials; use Linux, macOS or WSL")
        self._folder = tempfile.TemporaryDirectory(prefix="fairbench-")
        return self

    def __exit__(self, *error: object) -> None:
        """End the processes that still run."""
        for process in self._processes:
            process.end()
        self._folder.cleanup()

    def process(self, job: Callable[..., Any], arguments: tuple[Any, ...], limit: float) -> Process:
        """Start a process that does a job, for at most `limit` seconds. It ends with this executor at the latest."""
        self._started += 1
        output = Path(self._folder.name) / str(self._started)
        self._processes = [process for process in self._processes if not process.pipe.closed]
        process = Process(self._preload, output, job, arguments, limit)
        self._processes.append(process)  # `__exit__` ends it, whatever interrupts its start
        process.start()
        return process

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a module's function, called in a separate process where trials run."""
        process = self.process(_call, (function, *arguments), self._call_limit)
        names = []  # the arguments that an error message can name
        for argument in arguments:
            if isinstance(argument, str):
                names.append(argument)
            elif hasattr(argument, "name"):
                names.append(str(argument.name))
        return _result(process, process.limit, f"{function.__name__} of {', '.join(names)}")

    def has_free_slot(self) -> bool:
        """Whether a trial would start at once."""
        return bool(self._free)

    def submit(self, spec: TrialSpec, limit: float, changes: Mapping[str, Any] = NO_CHANGES) -> None:
        """Start a trial with a time limit in seconds; a timing trial is submitted only while no other runs."""
        occupied = self._free.pop()
        slot = occupied  # the slot as the trial sees it
        if spec.stage == "timing":
            slot = replace(self._slots[0], alone=True)  # all step times are taken on the same device
        slot = replace(slot, **changes)
        process = self.process(run_trial, (spec, slot), limit)
        self._running[spec.id] = _Running(spec, occupied, process)

    def collect(self, patience: float = inf) -> list[Ended]:
        """The trials that have ended or paused, after waiting at most `patience` seconds."""
        records: list[Ended] = []
        until = time.monotonic() + patience
        while not records and self._running:
            now = time.monotonic()
            if now >= until:
                break
            running = list(self._running.values())
            pipes = [trial.process.pipe for trial in running]
            next_deadline = min(trial.process.deadline for trial in running)
            ready = wait(pipes, max(min(next_deadline, until) - now, 0.0))
            for spec, _, process in running:
                if process.pipe in ready:
                    records += self._receive(spec, process)
                elif process.deadline < time.monotonic():
                    records.append(self._time_out(spec, process))
        return records

    def pause(self) -> list[Ended]:
        """Stop every running trial with a checkpoint.

        Returns the paused trials, and trials that have ended meanwhile.
        """
        for trial in self._running.values():
            trial.process.pause()
        records: list[Ended] = []
        until = time.monotonic() + PAUSE_LIMIT
        while self._running and time.monotonic() < until:
            records += self.collect(until - time.monotonic())
        # the trials that still run are ended without a checkpoint
        for spec, _, process in list(self._running.values()):
            self._free_slot(spec)
            process.end()
            records.append(PausedTrial(spec.id, f"its step did not end within {PAUSE_LIMIT:.0f} s"))
        return records

    def _receive(self, spec: TrialSpec, process: Process) -> list[Ended]:
        """Receive one message of a trial: progress, a record, a pause, or the end of the pipe if the process has died.

        Returns the outcome of the trial, in a list that is empty while the trial continues.
        """
        message = process.receive()
        if message is not None and message[0] == "progress":
            self._report(spec, *message[1:])
            return []
        self._free_slot(spec)
        if message is None:
            record = failed(spec, "WorkerDied", process.cause_of_death(), "")
        elif message[0] == "paused":
            process.end(GRACE)
            return [PausedTrial(spec.id, message[1])]
        elif message[0] == "raised":
            record = failed(spec, *message[1:])
        else:
            record = msgspec.convert(message[1], WholeRecord)
        output = process.end(GRACE)
        return [msgspec.structs.replace(record, output=output)]

    def _free_slot(self, spec: TrialSpec) -> None:
        """Note that a trial no longer runs, and that its slot is free."""
        ended = self._running.pop(spec.id)
        self._free.append(ended.slot)

    def _time_out(self, spec: TrialSpec, process: Process) -> WholeRecord:
        """End a trial that has reached its time limit; returns its record, which has failed."""
        self._free_slot(spec)
        trace = process.stuck_at()
        message = f"no end after {process.limit:.0f} s; --trial-timeout gives it more"
        record = failed(spec, "TimedOut", message, trace)
        return msgspec.structs.replace(record, output=trace)


def executor_of_study(options: RunOptions, observer: Observer, preload: Sequence[str], limit: float) -> ProcessExecutor:
    """The executor on this machine. A call of it may take `limit` seconds."""
    return ProcessExecutor(options.slots, observer.running, preload, limit)


def call_each(
    function: Callable[..., Any],
    each: Iterable[str],
    *arguments: Any,
    preload: Sequence[str] = (),
    limit: float = CALL_LIMIT,
    alone: bool = False,
) -> Iterator[tuple[str, Any]]:
    """Call a module's function once for each first argument in `each`, every time in a separate process.

    Yields each first argument with the result of its call, or with the `UsageError` that the call raised. If `alone` is
    True, the calls run one after the other; otherwise one call runs on each core.
    """
    most_processes = 1 if alone else cores()
    waiting = list(each)
    running: dict[Process, str] = {}  # the first argument of each call
    with ProcessExecutor((), preload=preload, call_limit=limit) as executor:
        while waiting or running:
            while waiting and len(running) < most_processes:
                argument = waiting.pop(0)
                process = executor.process(_call, (function, argument, *arguments), limit)
                running[process] = argument
            for process in _ended(list(running)):
                argument = running.pop(process)
                try:
                    result = _result(process, patience=0.0, call=f"{function.__name__} of {argument}")
                except UsageError as error:
                    result = error
                yield argument, result


def _ended(processes: Sequence[Process]) -> list[Process]:
    """Wait until a process sends a message or is late.

    Returns the processes with a message, otherwise the late ones.
    """
    patience = min(process.deadline for process in processes) - time.monotonic()
    ready = wait([process.pipe for process in processes], max(patience, 0.0))
    if ready:
        return [process for process in processes if process.pipe in ready]
    return [process for process in processes if process.deadline <= time.monotonic()]


def _call(send: Callable[..., None], function: Callable[..., Any], *arguments: Any) -> Any:
    """The job of a process that calls a function: it sends nothing before its result."""
    return function(*arguments)


def _result(process: Process, patience: float, call: str) -> Any:
    """Wait at most `patience` seconds for the result of a call, and end its process. `call` names it in messages.

    Raises:
        CallFailed: there is no result.
        UsageError: the function raised it.
    """
    try:
        if not wait([process.pipe], patience):
            raise CallFailed(call, f"no end after {process.limit:.0f} s; it was running", process.stuck_at())
        message = process.receive()
        cause = "" if message else process.cause_of_death()
    finally:
        printed = process.end()
    if message is None:
        raise CallFailed(call, cause, printed)
    if message[0] == "paused":
        raise CallFailed(call, "its process was stopped from outside (SIGTERM)", "")
    if message[0] == "raised":
        _, kind, text, trace = message
        if kind == UsageError.__name__:
            raise UsageError(text)
        if kind == ProgramError.__name__:
            raise ProgramError(text)
        raise CallFailed(call, f"it raises {kind}: {text}", trace)
    return message[1]

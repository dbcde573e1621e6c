"""Trials in processes of their own, one thread each: no trial meets anything that another one has left.

Processes are forked from a server that has loaded the heavy libraries once and has done no arithmetic, so that a new
one starts at once and shares the libraries' memory with the others; without workers, from this process, which then
loads the libraries itself.
"""

import gc
import importlib
import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType
from typing import Any

from fairbench.errors import UsageError
from fairbench.executors import Place, Record, Report, failure, run_trial
from fairbench.executors.process import STUCK, do
from fairbench.spec import TrialSpec

FROZEN = "fairbench.executors.frozen"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
KEPT_OUTPUT = 10_000
"""Characters that are kept of what a trial prints: the last ones."""
CALL_LIMIT = 600.0
"""Seconds that a call may take: to load data and build models, or to take two steps in every arena."""
GRACE = 5.0
"""Seconds that a process has to end, or to say what it is doing."""


class Process:
    """A process that does one job.

    Args:
        start: the start method, "forkserver" or "fork".
        output: the file that gets what it prints.
        job: what it does, see `fairbench.executors.process.do`.
        arguments: the job's arguments.
        limit: seconds after which it has taken too long.
    """

    def __init__(
        self, start: str, output: Path, job: Callable[..., Any], arguments: tuple[Any, ...], limit: float
    ) -> None:
        context: Any = multiprocessing.get_context(start)
        self.pipe, far_end = context.Pipe(duplex=False)
        self.output = output
        output.touch()
        self._process = context.Process(target=do, args=(far_end, str(output), job, arguments))
        try:
            if start == "forkserver":
                _start_server()
                self._process.start()  # which waits for the server to have loaded everything; Ctrl-C ends that
            else:
                with _deaf():  # whoever is called at a fork would swallow a Ctrl-C
                    self._process.start()
        except (OSError, EOFError) as error:
            raise UsageError(
                f"cannot start a process ({type(error).__name__}: {error}); "
                "try a shorter TMPDIR, or --workers 0, which needs no server"
            ) from error
        except KeyboardInterrupt:
            if self._process.pid is not None:
                self._process.kill()
            raise
        far_end.close()
        self.limit, self.deadline = limit, time.monotonic() + limit

    def hear(self) -> list[Any] | None:
        """Its next message; None when it has ended, or says what nobody can read."""
        try:
            message = json.loads(self.pipe.recv_bytes())
        except (EOFError, OSError, ValueError, RecursionError):
            return None
        return message if _is_message(message) else None

    def end(self, patience: float = 0.0) -> str:
        """End it with all that it has started; returns what it has printed."""
        self._process.join(patience)
        for kill in (lambda: os.killpg(self._process.pid, signal.SIGKILL), self._process.kill):
            try:
                kill()
            except ProcessLookupError:  # it has ended, or is not yet the head of a group
                continue
        self._process.join()
        self.pipe.close()
        return self.output.read_text(errors="replace")[-KEPT_OUTPUT:] if self.output.exists() else ""

    def stuck_at(self) -> str:
        """What it is doing, by its own account; then it is ended."""
        before = self.output.stat().st_size
        try:
            os.kill(self._process.pid, STUCK)
        except ProcessLookupError:  # it is gone, and something that it has started holds the pipe
            return self.end()
        end = time.monotonic() + GRACE
        while self.output.stat().st_size == before and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.2)  # for the rest of the lines
        return self.end()

    def cause_of_death(self) -> str:
        """Why it ended without a result."""
        self._process.join(GRACE)
        code = self._process.exitcode
        if code == -signal.SIGKILL:
            return "the process was killed (out of memory?)"
        if code is None:
            return "the process said something that is no message"
        return f"the process ended with {f'signal {-code}' if code < 0 else f'code {code}'} and no result"


class ProcessExecutor:
    """Runs trials in processes, each in a fresh one; whatever a trial does to its process is that trial's failure.

    Args:
        places: where trials run at the same time, one at each.
        report: told of the running trials.
        preload: modules that the trials will need.
        call_limit: seconds that a call may take.
        server: whether processes are forked from a server, else from this process.
    """

    def __init__(
        self,
        places: Sequence[Place],
        report: Report,
        preload: Sequence[str] = (),
        call_limit: float = CALL_LIMIT,
        server: bool = True,
    ) -> None:
        self._free, self._report, self._preload = list(reversed(places)), report, preload
        self._call_limit = call_limit
        self._start = "forkserver" if server else "fork"
        self._running: dict[str, tuple[TrialSpec, Process, Place]] = {}
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
        for _, process, _ in self._running.values():
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
        if message[0] == "raised":
            usage = message[1] == UsageError.__name__
            raise UsageError(message[2] if usage else f"{function.__name__} of {_names(arguments)}:\n{message[3]}")
        return message[1]

    def has_room(self) -> bool:
        """Whether a further trial would start at once."""
        return bool(self._free)

    def submit(self, spec: TrialSpec, limit: float) -> None:
        """Start a trial that may take so many seconds."""
        place = self._free.pop()
        self._running[spec.id] = spec, self._process(run_trial, (spec, place), limit), place

    def collect(self) -> list[Record]:
        """Pass on what the trials say until one or more have ended: their records."""
        records: list[Record] = []
        while not records:
            every = list(self._running.values())
            patience = min(process.deadline for _, process, _ in every) - time.monotonic()
            heard = wait([process.pipe for _, process, _ in every], max(patience, 0.0))
            for spec, process, _ in every:
                if process.pipe in heard:
                    records += self._hear(spec, process)
                elif process.deadline < time.monotonic():
                    records.append(self._too_long(spec, process))
        return records

    def _hear(self, spec: TrialSpec, process: Process) -> list[Record]:
        """One message of a trial: progress, a record, or the end of the pipe when the process has died."""
        message = process.hear()
        if message is not None and message[0] == "progress":
            self._report(spec, *message[1:])
            return []
        self._free.append(self._running.pop(spec.id)[2])
        if message is None:
            record = failure(spec, "WorkerDied", process.cause_of_death(), "")
        elif message[0] == "done" and _is_of(message[-1], spec):
            record = message[-1]
        elif message[0] == "raised":
            record = failure(spec, *message[1:])
        else:
            record = failure(spec, "WrongRecord", f"not the record of this trial but {str(message)[:200]}", "")
        return [{**record, "output": process.end(GRACE)}]

    def _too_long(self, spec: TrialSpec, process: Process) -> Record:
        """End a trial whose time is over."""
        self._free.append(self._running.pop(spec.id)[2])
        doing = process.stuck_at()
        message = f"no end after {process.limit:.0f} s; --trial-timeout gives it more"
        return {**failure(spec, "TimedOut", message, doing), "output": doing}


def _call(tell: Callable[..., None], function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


MESSAGES: dict[str, tuple[Any, ...]] = {"done": (object,), "progress": (int, (int, float)), "raised": (str, str, str)}
"""What a process may say, and of which types."""


def _is_message(message: Any) -> bool:
    """Whether something is a message: a process may say anything."""
    if not isinstance(message, list) or not message or not isinstance(message[0], str):
        return False
    types, parts = MESSAGES.get(message[0], ()), message[1:]
    return len(parts) == len(types) > 0 and all(map(isinstance, parts, types))


def _names(arguments: tuple[Any, ...]) -> str:
    """The arguments that are names."""
    return ", ".join(str(getattr(x, "name", x)) for x in arguments if isinstance(x, str) or hasattr(x, "name"))


def _is_of(record: Any, spec: TrialSpec) -> bool:
    """Whether something is the record of this trial."""
    return isinstance(record, dict) and record.get("id") == spec.id and record.get("spec") == spec.as_stored


@contextmanager
def _deaf() -> Iterator[None]:
    """Hear of Ctrl-C afterwards."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _start_server() -> None:
    """Start the server unless it runs: without threads of its own, deaf to Ctrl-C."""
    resource_tracker.ensure_running()  # which would unblock the signal if it started below
    outside = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ |= ONE_THREAD
    try:
        with _deaf():
            forkserver.ensure_running()
    finally:
        for name, value in outside.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})

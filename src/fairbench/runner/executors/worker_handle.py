"""The parent's handle of a process that does one job."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

from fairbench.common.errors import Preempted, UsageError
from fairbench.runner.executors.worker import PAUSE, STUCK, do

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
KEPT_OUTPUT = 10_000
"""Characters of a trial's output that are kept: the last ones."""
GRACE = 5.0
"""Seconds that a process has to end, or to print its stack."""


class Process:
    """A process that does one job.

    Args:
        start: the start method, "forkserver" or "fork".
        job, arguments: see `fairbench.runner.executors.worker.do`.
        limit: seconds that it may take.
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
                self._process.start()  # waits until the server has loaded everything; Ctrl-C interrupts
            else:
                with _signals_blocked():  # hooks that run at a fork would swallow a Ctrl-C
                    self._process.start()
        except (OSError, EOFError) as error:
            raise UsageError(_no_start(error, start)) from error
        except (KeyboardInterrupt, Preempted):
            if self._process.pid is not None:
                self._process.kill()
            raise
        far_end.close()
        self.limit, self.deadline = limit, time.monotonic() + limit

    def receive(self) -> list[Any] | None:
        """Its next message; None when it has ended."""
        try:
            return list(json.loads(self.pipe.recv_bytes()))
        except (EOFError, OSError):
            return None

    def end(self, patience: float = 0.0) -> str:
        """End it with all its children; returns the end of its output."""
        self._process.join(patience)
        for kill in (lambda: os.killpg(self._process.pid, signal.SIGKILL), self._process.kill):
            with suppress(ProcessLookupError):  # it has ended, or does not lead a process group yet
                kill()
        self._process.join()
        self.pipe.close()
        return self.output.read_text(errors="replace")[-KEPT_OUTPUT:] if self.output.exists() else ""

    def pause(self) -> None:
        """Make it write a checkpoint and stop."""
        with suppress(ProcessLookupError):  # it has ended, and its last message is in the pipe
            os.kill(self._process.pid, PAUSE)

    def stuck_at(self) -> str:
        """End it; returns its output with its stack."""
        before = self.output.stat().st_size
        try:
            os.kill(self._process.pid, STUCK)
        except ProcessLookupError:  # it has ended, but a child of it keeps the pipe open
            return self.end()
        end = time.monotonic() + GRACE
        while self.output.stat().st_size == before and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.2)  # for the rest of the lines
        return self.end()

    def cause_of_death(self) -> str:
        """The reason why it ended without a result."""
        self._process.join(GRACE)
        code = self._process.exitcode
        if code == -signal.SIGKILL:
            return "the process was killed (out of memory?)"
        if code is None:
            return "the process closed its connection without a result"
        return f"the process ended with {f'signal {-code}' if code < 0 else f'code {code}'} and no result"


def _no_start(error: OSError | EOFError, start: str) -> str:
    """The message for a process that could not be started, with the remedy."""
    what = f"cannot start a process ({type(error).__name__}: {error})"
    if "AF_UNIX path too long" in str(error):
        return f"{what}: the path of the folder for temporary files is too long; set TMPDIR to a shorter one"
    if start == "forkserver" and isinstance(error, EOFError | ConnectionError):
        return (
            "the process that trials are forked from ended while it loaded the libraries, perhaps out of memory; "
            "free memory and run the same command again, or try --workers 0, which needs no such process"
        )
    return f"{what}: does this user have too many of them (ulimit -u), or too many open files (ulimit -n)?"


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block SIGINT, SIGTERM and SIGUSR1 while a child starts; the child inherits the mask.

    Signals to the whole process group then end neither the server nor a child that has not set its handlers.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, PAUSE, STUCK})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _start_server() -> None:
    """Start the server unless it runs: single-threaded, and with signals blocked."""
    outside = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ |= ONE_THREAD
    try:
        with _signals_blocked():
            resource_tracker.ensure_running()  # its start unblocks signals, so it must precede the server
        with _signals_blocked():
            forkserver.ensure_running()
    finally:
        for name, value in outside.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})

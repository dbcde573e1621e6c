"""A process that does one job, as its parent sees it: how it starts, what it says, how it ends."""

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
"""Characters that are kept of what a trial prints: the last ones."""
GRACE = 5.0
"""Seconds that a process has to end, or to say what it is doing."""


class Process:
    """A process that does one job.

    Args:
        start: the start method, "forkserver" or "fork".
        output: the file that gets what it prints.
        job: what it does, see `fairbench.runner.executors.worker.do`.
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
            raise UsageError(_no_start(error, start)) from error
        except (KeyboardInterrupt, Preempted):
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
        return message if is_message(message) else None

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

    def pause(self) -> None:
        """Ask it to save what it has done and to stop."""
        with suppress(ProcessLookupError):  # it has ended meanwhile, and its last message is on its way
            os.kill(self._process.pid, PAUSE)

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


MESSAGES: dict[str, tuple[Any, ...]] = {
    "done": (object,),
    "paused": (str,),
    "progress": (int, (int, float)),
    "raised": (str, str, str),
}
"""What a process may say, and of which types."""


def is_message(message: Any) -> bool:
    """Whether something is a message: a process may say anything."""
    if not isinstance(message, list) or not message or not isinstance(message[0], str):
        return False
    types, parts = MESSAGES.get(message[0], ()), message[1:]
    return len(parts) == len(types) > 0 and all(map(isinstance, parts, types))


def _no_start(error: OSError | EOFError, start: str) -> str:
    """Why no process could be started, and what to do."""
    what = f"cannot start a process ({type(error).__name__}: {error})"
    if "AF_UNIX path too long" in str(error):
        return f"{what}: the folder for temporary files has too long a path; set TMPDIR to a shorter one"
    if start == "forkserver" and isinstance(error, EOFError | ConnectionError):
        return (
            "the process that trials are forked from ended while it loaded the libraries, perhaps killed for want of "
            "memory; make room and run the same command again, or try --workers 0, which needs no such process"
        )
    return f"{what}: has this user too many of them (ulimit -u), or too many open files (ulimit -n)?"


@contextmanager
def _deaf() -> Iterator[None]:
    """Hear of signals afterwards; what is started here is deaf to them until it decides otherwise.

    So Ctrl-C and a cluster's signals to all processes end neither the server nor a child that is yet to get ready.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, PAUSE, STUCK})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _start_server() -> None:
    """Start the server unless it runs: without threads of its own, and deaf."""
    outside = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ |= ONE_THREAD
    try:
        with _deaf():
            resource_tracker.ensure_running()  # which would unblock signals if it started below
        with _deaf():
            forkserver.ensure_running()
    finally:
        for name, value in outside.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})

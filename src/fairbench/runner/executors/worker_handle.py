"""The parent's handle of a process that does one job."""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.leftover_processes import end_marked
from fairbench.runner.executors.starting import ServedProcess, start_with_server, why_no_start
from fairbench.runner.executors.worker import PAUSE, PROCESS, STUCK, do

KEPT_OUTPUT = 10_000
"""Characters of a trial's output that are kept: the last ones."""
START = 1.0
"""Seconds in which a loaded server has started a process."""
GRACE = 5.0
"""Seconds that a process has to end, or to print its stack."""


class Process:
    """A process that does one job, for at most `limit` seconds.

    It is forked from a server that has loaded `modules`.
    """

    def __init__(
        self, modules: Sequence[str], output: Path, job: Callable[..., Any], arguments: tuple[Any, ...], limit: float
    ) -> None:
        self.pipe, self._far_end = multiprocessing.Pipe(duplex=False)
        self.output = output
        self.limit = limit
        output.touch()
        job_in_process = (self._far_end, str(output), job, arguments)
        self._process: Any = ServedProcess(modules, do, job_in_process)
        self._started: Future[None] = Future()

    def start(self) -> None:
        """Start the process as soon as its server has loaded everything.

        A signal may end the wait; `end` then ends the process. Another thread starts the process, since an interrupted
        start would leave a process with a part of its job, or without an owner.
        """
        threading.Thread(target=self._start, daemon=True).start()
        while not wait([self._started], 0.1).done:  # a signal may reach that thread; its handler runs here
            pass
        try:
            self._started.result()
        except (OSError, EOFError) as error:
            raise UsageError(why_no_start(error)) from error
        self._far_end.close()
        self.deadline = time.monotonic() + self.limit

    def _start(self) -> None:
        """Start the process in a thread; `_started` gets the end of the start, or its error."""
        try:
            start_with_server(self._process)
            self._started.set_result(None)
        except Exception as error:
            self._started.set_exception(error)

    def receive(self) -> list[Any] | None:
        """The next message of the process; None when the process has ended."""
        try:
            return list(json.loads(self.pipe.recv_bytes()))
        except (EOFError, OSError):
            return None

    def end(self, patience: float = 0.0) -> str:
        """End the process with all its children, and return the last part of its output.

        The process gets `patience` seconds to end by itself. If its server was not ready in time, the process may start
        later: it then finds no folder for its output, and ends at once.
        """
        if self.pipe.closed:
            return ""  # it was ended before
        wait([self._started], START)
        if self._process.pid is not None:
            self._process.join(patience)
            with suppress(ProcessLookupError):  # it has ended, or does not lead a process group yet
                os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.join()
        end_marked(PROCESS, str(self.output))
        self.pipe.close()
        if not self.output.exists():
            return ""
        return self.output.read_text(errors="replace")[-KEPT_OUTPUT:]

    def pause(self) -> None:
        """Make the process write a checkpoint and stop."""
        with suppress(ProcessLookupError):  # it has ended, and its last message is in the pipe
            os.kill(self._process.pid, PAUSE)

    def stuck_at(self) -> str:
        """Make the process print its stack, and end it. Returns the last part of its output."""
        before = self.output.stat().st_size
        try:
            os.kill(self._process.pid, STUCK)
        except ProcessLookupError:  # it has ended, but a child of it keeps the pipe open
            return self.end()
        latest = time.monotonic() + GRACE
        while self.output.stat().st_size == before and time.monotonic() < latest:
            time.sleep(0.05)
        time.sleep(0.2)  # for the rest of the lines
        return self.end()

    def cause_of_death(self) -> str:
        """Why the process has ended without a result, in words."""
        self._process.join(GRACE)
        code = self._process.exitcode
        if code == -signal.SIGKILL:
            return "the process was killed (out of memory?)"
        if code is None:
            return "the process closed its connection without a result"
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return f"the process ended with {how} and no result"

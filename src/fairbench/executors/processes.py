"""Trials in worker processes, one thread each.

Workers are forked from a server that has loaded the heavy libraries once and has done no arithmetic, so that a new
worker starts at once and shares the libraries' memory with the others.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from fairbench.errors import UsageError
from fairbench.executors import Record, Report, attempt, failure, resolve
from fairbench.plan import Study
from fairbench.spec import TrialSpec
from fairbench.suite import Suite

FORKSERVER = multiprocessing.get_context("forkserver")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Worker:
    """A process that does one job after the other, and the pipe to it."""

    def __init__(self) -> None:
        self.pipe, far_end = FORKSERVER.Pipe()
        self.process: BaseProcess = FORKSERVER.Process(target=_serve, args=(far_end,), daemon=True)
        try:
            _start_server()
            self.process.start()  # which waits for the server to have loaded everything; Ctrl-C ends that
        except (OSError, EOFError) as error:
            raise UsageError(
                f"cannot start a worker process ({type(error).__name__}: {error}); "
                "try a shorter TMPDIR, or --workers 0 for this process"
            ) from error
        far_end.close()
        self.spec: TrialSpec | None = None

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def cause_of_death(self) -> str:
        """Why the process ended."""
        self.process.join()
        code = self.process.exitcode or 0
        if code == -signal.SIGKILL:
            return "the worker process was killed (out of memory?)"
        return f"the worker process ended with {f'signal {-code}' if code < 0 else f'code {code}'}"


class ProcessExecutor:
    """Runs trials in worker processes; a worker that dies fails its trial and is replaced.

    Args:
        workers: number of processes, at least 1.
        report: told of the running trials.
        preload: modules that the trials will need.
    """

    def __init__(self, workers: int, report: Report, preload: Sequence[str] = ()) -> None:
        self._count, self._report, self._preload = workers, report, preload
        self._workers: list[Worker] = []

    def __enter__(self) -> "ProcessExecutor":
        """Start the workers."""
        FORKSERVER.set_forkserver_preload(list(self._preload))
        self._workers = [Worker() for _ in range(self._count)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the workers and what they still run."""
        for worker in self._workers:
            worker.stop()

    def resolve(self, suite: Suite, device: str) -> Study:
        """`Study.resolve` in a worker: this process stays light."""
        worker = self._workers[0]
        worker.pipe.send(("resolve", (suite, device)))
        try:
            kind, answer = worker.pipe.recv()
        except EOFError:
            raise UsageError(f"cannot load the suite: {worker.cause_of_death()}") from None
        if kind == "error":
            raise answer
        return answer  # type: ignore[no-any-return]

    def has_room(self) -> bool:
        """Whether a worker is idle."""
        return any(worker.spec is None for worker in self._workers)

    def submit(self, spec: TrialSpec) -> None:
        """Give the trial to an idle worker."""
        worker = next(worker for worker in self._workers if worker.spec is None)
        try:
            worker.pipe.send(("trial", (spec,)))
        except OSError:  # it died while it was idle
            worker = self._replace(worker)
            worker.pipe.send(("trial", (spec,)))
        worker.spec = spec

    def _replace(self, worker: Worker) -> Worker:
        """A new worker in the place of one that died."""
        worker.stop()
        new = self._workers[self._workers.index(worker)] = Worker()
        return new

    def collect(self) -> list[Record]:
        """Pass on what the workers say until a trial has ended."""
        records: list[Record] = []
        while not records:
            busy = {worker.pipe: worker for worker in self._workers if worker.spec is not None}
            for pipe in wait(list(busy)):
                records += self._hear(busy[pipe], busy[pipe].spec)  # type: ignore[index, arg-type]
        return records

    def _hear(self, worker: Worker, spec: TrialSpec) -> list[Record]:
        """One message of a worker: a record, progress, or the end of the pipe when the process has died."""
        try:
            kind, content = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            cause = worker.cause_of_death()
            self._replace(worker)
            return [failure(spec, "WorkerDied", cause, cause)]
        if kind == "progress":
            self._report(spec, *content)
            return []
        worker.spec = None
        return [content]


def _start_server() -> None:
    """Start the workers' server unless it runs: without threads of its own, deaf to Ctrl-C, as its workers."""
    resource_tracker.ensure_running()  # which would unblock the signal if it started below
    outside = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ |= ONE_THREAD
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in outside.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _serve(pipe: Connection) -> None:
    """Do the jobs that come through the pipe, one after the other; what a worker process does."""
    # Ctrl-C goes to the whole group, and the parent decides; a server that others started may not block it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def report(spec: TrialSpec, step: int, loss: float) -> None:
        pipe.send(("progress", (step, loss)))

    jobs: dict[str, Callable[..., Any]] = {"resolve": resolve, "trial": lambda spec: attempt(spec, report)}
    while True:
        try:
            job, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = ("done", jobs[job](*arguments))
        except UsageError as error:
            answer = ("error", error)
        pipe.send(answer)


def _die_with_parent() -> None:
    """A parent that was killed can stop nobody: end with it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

"""Trials in worker processes, one thread each."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType

from fairbench.executors import Record, Report, attempt, failure
from fairbench.spec import TrialSpec


class Worker:
    """A process that runs one trial after the other, and the pipe to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(far_end,), daemon=True)
        self.process.start()
        far_end.close()
        self.spec: TrialSpec | None = None

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class ProcessExecutor:
    """Runs trials in worker processes; a worker that dies fails its trial and is replaced.

    Args:
        workers: number of processes, at least 1.
        report: told of the running trials.
    """

    def __init__(self, workers: int, report: Report) -> None:
        self._count, self._report = workers, report
        self._workers: list[Worker] = []

    def __enter__(self) -> "ProcessExecutor":
        """Start the workers; they import what trials need while the study is planned."""
        self._workers = [Worker() for _ in range(self._count)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the workers and what they still run."""
        for worker in self._workers:
            worker.stop()

    def has_room(self) -> bool:
        """Whether a worker is idle."""
        return any(worker.spec is None for worker in self._workers)

    def submit(self, spec: TrialSpec) -> None:
        """Give the trial to an idle worker."""
        worker = next(worker for worker in self._workers if worker.spec is None)
        worker.spec = spec
        worker.pipe.send(spec.to_json())

    def collect(self) -> list[Record]:
        """Pass on what the workers say until a trial has ended."""
        records: list[Record] = []
        while not records:
            busy = {worker.pipe: worker for worker in self._workers if worker.spec is not None}
            for pipe in wait(list(busy)):
                records += self._hear(busy[pipe])  # type: ignore[index]
        return records

    def _hear(self, worker: Worker) -> list[Record]:
        """One message of a worker: a record, progress, or the end of the pipe when the process has died."""
        assert worker.spec is not None
        try:
            kind, content = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            message = _cause_of_death(worker.process.exitcode or 0)
            record = failure(worker.spec, "WorkerDied", message, message)
            self._workers[self._workers.index(worker)] = Worker()
            return [record]
        if kind == "progress":
            self._report(worker.spec, *content)
            return []
        worker.spec = None
        return [content]


def _cause_of_death(exitcode: int) -> str:
    if exitcode == -signal.SIGKILL:
        return "the worker process was killed (out of memory?)"
    if exitcode < 0:
        return f"the worker process was ended by {signal.Signals(-exitcode).name}"
    return f"the worker process exited with code {exitcode}"


def _serve(pipe: Connection) -> None:
    """Run the trials that come through the pipe; what a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent decides
    threading.Thread(target=_die_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"
    import fairbench.trial  # noqa: F401  while the parent plans

    def report(spec: TrialSpec, step: int, loss: float) -> None:
        pipe.send(("progress", (step, loss)))

    while True:
        try:
            spec = TrialSpec.from_json(pipe.recv())
        except EOFError:
            return
        pipe.send(("record", attempt(spec, report)))


def _die_with_parent() -> None:
    """A parent that was killed can stop nobody: end with it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

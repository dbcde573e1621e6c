"""Four processes that do jobs together over gloo: started once, because most of the time is the import of torch.

This file is also the program that the processes run: it imports everything, then forks them.
"""

import faulthandler
import gc
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.tensor import debug

COUNT = 4
TIMEOUT = 60.0  # seconds; the longest job takes a tenth of it
STARTUP = 120.0
GRACE = 5.0  # seconds after one has failed: the other processes may wait forever in a collective


class Answer(NamedTuple):
    """What a process sends after a job: the function's result, or the traceback of its error."""

    succeeded: bool
    result: Any


class Failed(AssertionError):
    """A job that failed in some process, or did not end; the message has the output of each process."""


class Processes:
    """A pool of `COUNT` processes that starts with its first job, and again after a job that did not end."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None

    def run(self, world, function, *args, timeout=TIMEOUT, **options):
        """Call a function of a module in `world` processes at once, each in a process group of that size.

        `args` and `options` are its arguments, `timeout` is in seconds. Returns the result of each process, by rank.
        Raises `Failed` if the function raised in some process, or hangs.
        """
        __tracebackhide__ = True
        call = (function.__module__, function.__name__, args, options)
        try:
            return self._once(world, call, timeout)
        except Failed as failure:
            if "connectFullMesh" not in str(failure):
                raise
        return self._once(world, call, timeout)  # gloo could not form a group, which is no fault of the code

    def _once(self, world, call, timeout):
        """One attempt at a job."""
        if self._server is None:
            self._start()
        job = Path(tempfile.mkdtemp(dir=self._directory))
        for rank in range(world):
            self._connections[rank].send((str(job / "store"), rank, world, timeout, call))
        answers = self._collect(world, time.monotonic() + timeout)
        results = []
        failures = []
        for rank in range(world):
            answer = answers.get(rank, Answer(succeeded=False, result="no answer"))
            if answer.succeeded:
                results.append(answer.result)
            else:
                failures.append(f"--- {rank} of {world}:\n{answer.result}")
        if not failures:
            return results
        if len(answers) < world:
            failures.append(f"--- output of {world}:\n{self.close()}")
        raise Failed("\n".join(failures))

    def close(self) -> str:
        """End the processes; returns the last part of their stderr."""
        if self._server is None:
            return ""
        for connection in self._connections:
            connection.close()
        try:
            self._server.wait(0.5)
        except subprocess.TimeoutExpired:
            os.killpg(self._server.pid, signal.SIGKILL)  # its own session only
            self._server.wait()
        self._server = None
        output = (self._directory / "stderr").read_text(errors="replace")
        shutil.rmtree(self._directory, ignore_errors=True)
        return output[-6000:]

    def _start(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="processes-"))
        pipes = [Pipe() for _ in range(COUNT)]
        theirs = [end.fileno() for _, end in pipes]
        python_path = os.pathsep.join(filter(None, sys.path))
        with (self._directory / "stderr").open("wb") as stderr:
            self._server = subprocess.Popen(
                [sys.executable, __file__, *map(str, theirs)],
                pass_fds=theirs,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": python_path},
                stderr=stderr,
                start_new_session=True,
            )
        self._connections = [mine for mine, _ in pipes]
        for _, end in pipes:
            end.close()
        ready = self._collect(COUNT, time.monotonic() + STARTUP)
        if len(ready) < COUNT or not all(answer.succeeded for answer in ready.values()):
            raise Failed(f"the processes did not start:\n{self.close()}")

    def _collect(self, world, deadline):
        """The answers before the deadline, by rank."""
        answers = {}
        pending = {self._connections[rank]: rank for rank in range(world)}
        while pending and (remaining := deadline - time.monotonic()) > 0:
            for connection in wait(list(pending), remaining):
                rank = pending.pop(connection)
                try:
                    answers[rank] = Answer(*connection.recv())
                except (EOFError, ConnectionError):
                    return answers  # it died: the pool must start again
                if not answers[rank].succeeded:
                    deadline = min(deadline, time.monotonic() + GRACE)
        return answers


# What follows runs in the processes.


def serve(descriptors):
    """Import the modules of the jobs once, fork one worker for each pipe, wait for them."""
    for module in ("sharded_cases", "sharded_models", "torch._dynamo"):  # the last is for optimizers
        importlib.import_module(module)
    gc.freeze()  # otherwise each worker's first collection copies all shared pages
    connections = [Connection(descriptor) for descriptor in descriptors]
    for mine in connections:
        if os.fork() == 0:
            for other in connections:
                if other is not mine:
                    other.close()
            work(mine)
            os._exit(0)
    for connection in connections:
        connection.close()
    for _ in connections:
        os.wait()


def work(connection):
    """Do jobs until the other side closes the pipe."""
    torch.set_num_threads(1)
    connection.send((True, "ready"))
    while True:
        try:
            store, rank, world, timeout, call = connection.recv()
        except (EOFError, ConnectionError):
            return
        faulthandler.dump_traceback_later(timeout * 0.9)
        try:
            connection.send(do(store, rank, world, timeout, *call))
        except ConnectionError:
            return
        if dist.is_initialized():
            dist.destroy_process_group()  # processes that wait for this one in a collective get an error now
        clear_cache = getattr(debug, "_clear_sharding_prop_cache", None)
        if clear_cache is not None:
            clear_cache()  # it has meshes of groups that are gone
        faulthandler.cancel_dump_traceback_later()


def do(store, rank, world, timeout, module, function, args, options):
    """(True, the function's result) or (False, its traceback)."""
    try:
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(store, world),
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=timeout),
        )
        dist.barrier()  # no process may end before all are connected
        torch.manual_seed(0)
        job = getattr(importlib.import_module(module), function)
        return True, job(*args, **options)
    except BaseException:
        return False, traceback.format_exc()


if __name__ == "__main__":
    serve([int(argument) for argument in sys.argv[1:]])

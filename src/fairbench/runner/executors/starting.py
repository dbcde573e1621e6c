"""Processes that are forked from a server, and their start.

This uses the parts of multiprocessing behind `get_context("forkserver")`, whose public interface lacks two things. It
has one server for a process, whose modules are set before it starts: in a session with several studies, as a notebook,
the trials of a later one would each import what the first one did not need, which takes seconds. And it makes every
child run the script of its parent again, see `_Popen`.
"""

import io
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing import current_process, forkserver, popen_forkserver, reduction, resource_tracker, spawn, util
from multiprocessing.context import ForkServerProcess, set_spawning_popen
from multiprocessing.process import BaseProcess
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.runner.executors.worker import PAUSE, STUCK

SIGNALS = (signal.SIGINT, PAUSE, STUCK)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
LOADED = "fairbench.runner.executors.loaded"
"""The module that a server imports last."""
SERVERS: dict[frozenset[str], forkserver.ForkServer] = {}
"""The servers of this process by the modules that they load; a later study with the same ones starts at once."""


def server(modules: Sequence[str]) -> forkserver.ForkServer:
    """A server that loads at least these modules when it starts.

    Since the start is slow, the server stays for the next study.
    """
    for loaded, known in SERVERS.items():
        if loaded.issuperset(modules):
            return known
    new = forkserver.ForkServer()
    new.set_forkserver_preload([*modules, LOADED])
    SERVERS[frozenset(modules)] = new
    return new


class ServedProcess(ForkServerProcess):
    """A process that is forked from a server which has loaded some modules."""

    def __init__(self, modules: Sequence[str], job: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        super().__init__(target=job, args=arguments)
        self.modules = modules

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> popen_forkserver.Popen:
        return _Popen(process_obj)


class _Popen(popen_forkserver.Popen):
    """A handle of a process that our own server has forked."""

    _fds: list[int]

    def _launch(self, process_obj: ServedProcess) -> None:
        """Start a process as the parent class does, but by our own server, and without running `__main__` in the child.

        A script without a main guard would run its study again; a notebook and standard input cannot be run again.
        """
        preparation = spawn.get_preparation_data(process_obj.name)
        preparation.pop("start_method", None)  # it may be another library's, such as that of joblib's workers
        preparation.pop("init_main_from_name", None)
        preparation.pop("init_main_from_path", None)
        message = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(preparation, message)
            reduction.dump(process_obj, message)
        finally:
            set_spawning_popen(None)
        self.sentinel, child_pipe = server(process_obj.modules).connect_to_new_process(self._fds)
        descriptors = (os.dup(child_pipe), self.sentinel)
        self.finalizer = util.Finalize(self, util.close_fds, descriptors)  # type: ignore[attr-defined]
        with open(child_pipe, "wb") as pipe:  # noqa: PTH123 - a descriptor
            pipe.write(message.getbuffer())
        self.pid = forkserver.read_signed(self.sentinel)


def start_with_server(process: ServedProcess) -> None:
    """Start a process, and its server if the server does not run yet.

    The server is single-threaded, and signals are blocked in this thread. The server and its children inherit this, so
    that a signal to the whole process group ends neither the server nor a child that has not set its handlers yet.

    Raises:
        UsageError: this process is a daemon, which may have no children.
    """
    if current_process().daemon:
        raise UsageError(
            "trials run in processes, which a worker of multiprocessing.Pool may not start; "
            "call it in concurrent.futures.ProcessPoolExecutor or in the main process"
        )
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        for ensure_running in (resource_tracker.ensure_running, server(process.modules).ensure_running):
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # again, since the start of the tracker unblocks them
            ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    process.start()


def why_no_start(error: OSError | EOFError) -> str:
    """A message on why a process could not start, with what the user can do."""
    what = f"cannot start a process ({type(error).__name__}: {error})"
    if "AF_UNIX path too long" in str(error):
        return f"{what}: the path of the folder for temporary files is too long; set TMPDIR to a shorter one"
    if isinstance(error, EOFError | ConnectionError):
        return (
            "the process that trials are forked from ended while it loaded the libraries, perhaps out of memory; "
            "free memory and run the same command again"
        )
    return f"{what}: does this user have too many of them (ulimit -u), or too many open files (ulimit -n)?"

"""The main function of a process that does one job and ends."""

import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fairbench.common.errors import Paused, raised_at
from fairbench.common.leftover_processes import end_marked
from fairbench.study.record import plain_values

STUCK = signal.SIGUSR1
"""Makes the process print its stack."""
PAUSE = signal.SIGTERM
"""Makes the job write a checkpoint and stop; a job without checkpoints stops at once."""
PROCESS = "FAIRBENCH_PROCESS"
"""The environment variable that marks all programs that a job starts. Its value is the file of the job's output."""


def do(pipe: Connection, output: str, job: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Do a job and send its outcome through the pipe, in JSON.

    The messages are ["done", result], ["paused", why nothing could be saved], ["raised", type, text, traceback], and
    the messages that the job itself sends. The process starts with its signals blocked. Everything that the job
    prints goes to the file `output`.
    """
    own_pid = os.getpid()
    os.setsid()  # a new process group, which is killed as a whole
    os.environ[PROCESS] = output
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_die_with_parent, args=(output,), daemon=True).start()
    try:
        printed = Path(output).open("a", buffering=1, errors="replace")  # noqa: SIM115
    except FileNotFoundError:  # the parent was asked to stop before this process existed
        os._exit(0)
    for stream in (1, 2):
        os.dup2(printed.fileno(), stream)
    sys.stdout = printed  # both may be redirected in the parent
    sys.stderr = printed
    faulthandler.register(STUCK, file=printed, all_threads=False)
    signal.signal(PAUSE, _stop)

    def send(*message: Any) -> None:
        """Send a message to the parent in JSON."""
        if os.getpid() != own_pid:  # a child that the job has forked
            return
        text = json.dumps(message, allow_nan=False, default=plain_values)
        pipe.send_bytes(text.encode())

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {STUCK, PAUSE})
        result = job(send, *arguments)
        signal.signal(PAUSE, signal.SIG_IGN)  # a pause must not interrupt the last message
        send("done", result)
    except Paused as pause:
        send("paused", str(pause))
    except BaseException as error:  # SystemExit too: it ends the job, not the study
        signal.signal(PAUSE, signal.SIG_IGN)
        send("raised", type(error).__name__, str(error) or raised_at(error), traceback.format_exc())
    printed.flush()
    os._exit(0)  # without exit handlers of the job


def _stop(*_: Any) -> None:
    """Interrupt the job once; later signals of the same kind are ignored."""
    signal.signal(PAUSE, signal.SIG_IGN)
    raise Paused


def _die_with_parent(output: str) -> None:
    """Wait for the end of the parent, then end this process group and all programs that the job has started.

    The parent may be killed, and does not stop this process then.
    """
    parent = parent_process()
    assert parent is not None
    parent.join()
    end_marked(PROCESS, output)
    os.killpg(os.getpid(), signal.SIGKILL)

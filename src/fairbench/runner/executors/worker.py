"""What happens in a process that does one job and ends."""

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

from fairbench.common.errors import Paused

STUCK = signal.SIGUSR1
"""Tells the process to write down what it is doing."""
PAUSE = signal.SIGTERM
"""Tells the process to save what it has done and to stop; a job that saves nothing stops at once."""


def do(pipe: Connection, output: str, job: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Do a job and say through the pipe what came of it, in JSON.

    Messages are ["done", result], ["paused", what could not be saved], ["raised", type, text, traceback], and whatever
    the job tells. The process begins with its signals blocked.

    Args:
        pipe: where messages go.
        output: the file that gets what the job prints.
        job: called with a function that sends a message, and with the arguments.
        arguments: the job's arguments.
    """
    me = os.getpid()
    os.setsid()  # so that it can be ended with all that it has started
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to decide
    threading.Thread(target=_die_with_parent, daemon=True).start()
    printed = Path(output).open("a", buffering=1, errors="replace")  # noqa: SIM115
    for stream in (1, 2):
        os.dup2(printed.fileno(), stream)
    sys.stdout = sys.stderr = printed  # whatever they were where this was forked
    faulthandler.register(STUCK, file=printed, all_threads=False)
    signal.signal(PAUSE, _stop)

    def tell(*message: Any) -> None:
        if os.getpid() == me:  # and not one that the job has forked
            pipe.send_bytes(json.dumps(message, allow_nan=False).encode())

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {STUCK, PAUSE})
        result = job(tell, *arguments)
        signal.signal(PAUSE, signal.SIG_IGN)  # there is nothing left to pause, and no half of a message
        tell("done", result)
    except Paused as pause:
        tell("paused", str(pause))
    except BaseException as error:  # sys.exit ends the job, not the study
        signal.signal(PAUSE, signal.SIG_IGN)
        tell("raised", type(error).__name__, str(error), traceback.format_exc())
    printed.flush()
    os._exit(0)  # whatever the job wants to be done at the end is nobody's business


def _stop(*_: Any) -> None:
    signal.signal(PAUSE, signal.SIG_IGN)
    raise Paused


def _die_with_parent() -> None:
    """A parent that was killed can stop nobody: end with it, and with all that was started here."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.killpg(os.getpid(), signal.SIGKILL)

"""The process of a training program, from its start to its end."""

import os
import re
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fairbench.arenas.program import own_folder
from fairbench.common.errors import Paused, UsageError
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program_start import Start
from fairbench.training.result_files import OUTPUT

SHOWN_LINES = 80
"""The number of lines of output in the message on a failed program. torchrun adds 40 after the lines of an error."""
GRACE = 30.0
"""The seconds after SIGTERM in which a program must write its checkpoint and end."""
CHECK_SECONDS = 1.0
"""The least number of seconds between two checks of the reports of a running program."""
SIGNAL = "signal"
"""The beginning of how a program ended that was killed."""
REFUSES_FOLDER = re.compile(r"exists|not empty", re.IGNORECASE)
"""Words in the error of a program that wants a folder that is new."""


UNCAUGHT = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+([\w.]+(?:Error|Exception).*)\s*\Z")
"""An exception that ended a program of Python, at the end of an output."""


class StillRunning(Exception):
    """A program was stopped after the longest time that it may run. Its reports so far are right."""


class ProgramFailed(Exception):
    """A program ended with an error.

    Attributes:
        how: how it ended, such as "exit code 1", with what may be the cause.
        end: the end of its output.
        file: the file of its output; None if the file is removed after the trial.
    """

    def __init__(self, how: str, end: str, file: Path | None) -> None:
        super().__init__(how, end, file)
        self.how = how
        self.end = end
        self.file = file

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended the program."""
        return self.how.startswith(SIGNAL)

    def __str__(self) -> str:
        output = "the end of its output"
        if self.file is not None:
            output += f", which is {self.file}"
        return f"the program ended with {self.how}; {output}:\n{self.end}"


def run_program(start: Start, folder: Path, slot: DeviceSlot, show_progress: Callable[[], None], longest: float) -> int:
    """Run a program until it ends, and show its progress.

    Returns:
        The most memory that it, or a process that it has started and waited for, had at any time, in bytes. It is no
        less than what this process had when it started the program.

    Raises:
        StillRunning: it has not ended after `longest` seconds.
        Paused: this process received SIGTERM, which is passed on to the program.
        ProgramFailed: the program ended with an error.
    """
    process = _started(start, folder)
    ended = threading.Event()
    usage: list[resource.struct_rusage] = []  # of the process, once it has ended

    def wait() -> None:
        _, status, used = os.wait4(process.pid, 0)  # `Popen.wait` does not tell what the process has used
        process.returncode = os.waitstatus_to_exitcode(status)
        usage.append(used)
        ended.set()

    # `Popen.wait` with a timeout would poll; after a signal's exception, `Thread.join` takes the thread for ended.
    threading.Thread(target=wait, daemon=True).start()
    last_moment = time.monotonic() + longest
    try:
        pause = CHECK_SECONDS
        while not ended.is_set():
            if time.monotonic() > last_moment:
                raise StillRunning
            ended.wait(pause)
            began = time.monotonic()
            show_progress()
            seconds = time.monotonic() - began
            pause = max(CHECK_SECONDS, 100 * seconds)  # a long file is read less often
    except Paused:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        ended.wait(GRACE)
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise _failure(process.returncode, folder, slot, start)
    return usage[0].ru_maxrss * 1024


def check_ended_well(folder: Path, slot: DeviceSlot) -> None:
    """Raise `ProgramFailed` if the output of a program ends with an exception, although its exit code was 0.

    A shell gives that code after `python train.py | tee log` and `python train.py; echo done`.
    """
    end = _end_of(own_folder(folder) / OUTPUT)
    found = UNCAUGHT.search(end)
    if found:
        remedy = "let its shell pass the exit code on, as bash -o pipefail does"
        how = f"exit code 0, early, after {found[1]}; {remedy}"
        raise ProgramFailed(how, end, _kept_output(folder, slot))


def _started(start: Start, folder: Path) -> subprocess.Popen[bytes]:
    """Start a program. Its output is added to a file of the trial."""
    with (own_folder(folder) / OUTPUT).open("ab") as output:
        try:
            return subprocess.Popen(
                start.words,
                cwd=start.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=start.environment,
                start_new_session=True,
            )
        except OSError as error:
            where = f"it is started in {start.folder.absolute()}"
            if isinstance(error, PermissionError):
                where += f"; chmod +x {start.words[0]} lets it start, or write before it what runs it, such as bash"
            raise UsageError(f"the program {start.words[0]!r} cannot be started: {error.strerror}; {where}") from error


def _failure(code: int, folder: Path, slot: DeviceSlot, start: Start) -> ProgramFailed:
    """The error of a program that ended with a code."""
    how = f"{SIGNAL} {-code}" if code < 0 else f"exit code {code}"
    if start.is_revision:
        how += " in the checkout of its revision, which has no files that git ignores (name such data by a full path)"
    end = _end_of(own_folder(folder) / OUTPUT)
    if REFUSES_FOLDER.search(end) and str(folder) in end:
        how += " (its folder {out} exists already, and is empty; {out}/new in the command is a folder that it can make)"
    return ProgramFailed(how, end, _kept_output(folder, slot))


def _kept_output(folder: Path, slot: DeviceSlot) -> Path | None:
    """The file of the output of a trial; None if it is removed after the trial."""
    if not slot.checkpoints:
        return None
    return own_folder(Path(slot.checkpoints) / folder.name) / OUTPUT


def _end_of(file: Path) -> str:
    """The last lines of a file. Only the end of the file is read."""
    with file.open("rb") as output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(size - 100 * SHOWN_LINES, 0))
        lines = output.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-SHOWN_LINES:])

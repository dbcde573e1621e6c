"""A trial of a training program. The program runs in a folder of its own, and its reports become the record."""

import fcntl
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fairbench.arenas.program import ABOUT, FOLDER, ProgramOptions, code_of, command, own_folder, with_texts, words_of
from fairbench.common.errors import Paused, UsageError
from fairbench.common.files import write_atomically
from fairbench.common.formatting import some
from fairbench.common.leftover_processes import ending
from fairbench.common.terminal import say
from fairbench.study.record import WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.machine_load import Load, LoadMeter
from fairbench.training.program_record import FINGERPRINTS, Fingerprints, program_record
from fairbench.training.program_results import read_reported
from fairbench.training.result_files import OUTPUT, Folders, States, end_last_line, is_elsewhere, result_files, states
from fairbench.training.result_names import WrongResults
from fairbench.training.trainer import Progress

SHOWN_LINES = 80
"""The number of lines of output in the message on a failed program. torchrun adds 40 after the lines of an error."""
GRACE = 30.0
"""The seconds after SIGTERM in which a program must write its checkpoint and end."""
CHECK_SECONDS = 1.0
"""The least number of seconds between two checks of the reports of a running program."""


SET_ASIDE = "earlier-"
"""The beginning of the name of a folder with what the program wrote before it began again in an empty one."""
REFUSES_FOLDER = re.compile(r"exists|not empty", re.IGNORECASE)
"""Words in the error of a program that wants a folder that is new."""


class StillRunning(Exception):
    """A program was stopped after the longest time that it may run. Its reports so far are right."""


class ProgramFailed(Exception):
    """A program ended with an error; the message has the end of its output."""


def program_trial(spec: TrialSpec, slot: DeviceSlot, progress: Progress, longest: float = math.inf) -> WholeRecord:
    """Run the training program of a trial, and make its record. The trial has finished or diverged.

    The folder of the program is kept until the trial has a record. At a slot without checkpoints it is temporary.

    Args:
        spec: the trial.
        slot: where it runs.
        progress: called with a step and its training loss while the program runs.
        longest: the seconds after which the program is stopped.

    Raises:
        StillRunning: the program ran for the longest time.
        Paused: this process received SIGTERM, and so did the program.
        ProgramFailed, WrongResults: the program ended with an error, or its results contradict themselves.
    """
    options = ProgramOptions(**spec.arena.model)
    _check_code(spec, options)
    with tempfile.TemporaryDirectory(prefix="fairbench-") as temporary, _alone_where_it_writes(spec, slot, options):
        folder = Path(slot.checkpoints or temporary).resolve() / spec.id
        folder.mkdir(parents=True, exist_ok=True)
        with ending(FOLDER, str(folder)):
            try:
                ended = _attempt(spec, folder, slot, progress, longest)
            except ProgramFailed as error:
                if _is_first_attempt(folder) or not REFUSES_FOLDER.search(str(error)):
                    raise
                say("the program refuses the folder of its interrupted attempt, and starts again in an empty one")
                _set_aside(folder)
                ended = _attempt(spec, folder, slot, progress, longest)
        folders = Folders(folder, _folder_of(spec.optimizer.variant or {}, slot))
        reported = read_reported(folders, options, ended.states)
        if reported.restarted:
            say("the trial restarted with its first step: the program does not resume from its own checkpoint")
        load = ended.load if len(ended.states) == 1 else None
        fingerprints = Fingerprints.read(own_folder(folder))
        return program_record(spec, slot, options, reported, fingerprints, ended.seconds, load)


@contextmanager
def _alone_where_it_writes(spec: TrialSpec, slot: DeviceSlot, options: ProgramOptions) -> Iterator[None]:
    """Let one trial run at a time where the results are not in a folder of the trial: only time tells files apart."""
    if not is_elsewhere(options):
        yield
        return
    descriptor = os.open(_folder_of(spec.optimizer.variant or {}, slot), os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # it also ends the lock


@dataclass(frozen=True)
class Attempt:
    """An attempt of a trial that has ended.

    Attributes:
        states: the states of the files of results at the beginning of each attempt.
        seconds: the duration of this attempt.
        load: the load of the machine during this attempt.
    """

    states: list[States]
    seconds: float
    load: Load


def _attempt(spec: TrialSpec, folder: Path, slot: DeviceSlot, progress: Progress, longest: float) -> Attempt:
    """Run the program of a trial once."""
    options = ProgramOptions(**spec.arena.model)
    started = start_of(spec, folder, slot, options)
    folders = Folders(folder, started.folder)
    attempts = _begin_attempt(spec, folders, options, slot)
    show_progress = partial(_show_progress, folders, options, attempts, progress)
    began = time.monotonic()
    meter = LoadMeter()
    try:
        _run(started, folder, slot, show_progress, longest)
    except StillRunning:
        read_reported(folders, options, attempts, ended=False)
        raise
    return Attempt(attempts, time.monotonic() - began, meter.read())


def _is_first_attempt(folder: Path) -> bool:
    """Whether a trial has had no attempt before the last one."""
    about = json.loads((own_folder(folder) / ABOUT).read_text())
    return len(about["attempts"]) == 1


def _set_aside(folder: Path) -> None:
    """Move what earlier attempts have written, so that the next attempt is the first one in an empty folder."""
    own = own_folder(folder)
    number = len([*own.glob(f"{SET_ASIDE}*")]) + 1
    folder.rename(own / f"{SET_ASIDE}{number}")
    (own / ABOUT).unlink()
    folder.mkdir()


@dataclass(frozen=True)
class Start:
    """How the program of a trial is started.

    Attributes:
        words: its command.
        folder: the folder in which it runs.
        environment: its environment variables.
        is_revision: whether the folder is in the checkout of a git revision.
    """

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    is_revision: bool = False


def start_of(spec: TrialSpec, folder: Path, slot: DeviceSlot, options: ProgramOptions) -> Start:
    """The start of the program of a trial. `folder` is that of the trial."""
    variant = spec.optimizer.variant or {}
    trial_values = values(spec, folder)
    environment = _environment(folder, slot, options)
    own = variant.get("env", {})
    remedy = f"optimizers.{spec.optimizer.name}.options"
    if variant:
        remedy = f"variants.{spec.optimizer.name}.values"
    own_values = command(own.values(), trial_values, remedy)
    if options.seed_env:
        environment[options.seed_env] = str(spec.seed)
    environment.update(zip(own, own_values, strict=True))
    words = words_of(options.program, variant.get("args", ""))
    if spec.optimizer.variant is None:
        words = with_texts(words, spec.optimizer.options)
    first, *others = command(words, trial_values, remedy)
    runs_in = _folder_of(variant, slot)
    is_path = "/" in first
    if is_path and not (runs_in / first).exists() and Path(first).exists():
        first = str(Path(first).absolute())  # such as the Python of an environment, which no revision has
    return Start([first, *others], runs_in, environment, is_revision="commit" in variant)


def _folder_of(variant: Mapping[str, Any], slot: DeviceSlot) -> Path:
    """The folder in which a variant runs: in the checkout of its revision, or a folder of the user."""
    folder = Path(variant.get("folder", ""))
    if "commit" not in variant:
        return folder
    checkout = Path(slot.revisions, variant["commit"])
    if not checkout.is_dir():
        raise UsageError(f"{checkout}, the checkout of a revision, is not there; let all nodes share its folder")
    return checkout / folder


def _check_code(spec: TrialSpec, options: ProgramOptions) -> None:
    """Raise UsageError if a file of the program was changed since the study was planned."""
    variant = spec.optimizer.variant
    if variant is not None and "commit" in variant:
        return  # a commit does not change
    if variant is None:
        planned = spec.arena.code
        now = code_of(options)
    else:
        planned = spec.optimizer.code
        found = code_of(options, variant.get("args", ""), Path(variant.get("folder", "")))
        now = {file: sha for file, sha in found.items() if file in planned}  # others may be those of another variant
    # A new file is none of the planned ones: the program itself may have written it.
    changed = [file for file in planned if planned[file] != now.get(file)]
    if changed:
        advice = "run the same command again"
        if variant is not None:
            advice += "; a variant with the revision @ has the files as they are when the study begins"
        raise UsageError(f"{some(changed)} was changed after this run had started: {advice}")


def values(spec: TrialSpec, folder: Path) -> dict[str, Any]:
    """The values of the placeholders in the command; None for a placeholder that the trial does not set."""
    training = {key: value for key, value in vars(spec.training).items() if isinstance(value, int | float | str)}
    model = spec.arena.model
    return {
        **training,
        "batch_size": spec.arena.batch_size or None,
        "gpus": model["gpus"] or None,
        "size": model["size"] or None,
        "cores": model["cores"],
        **spec.optimizer.options,
        "optimizer": spec.optimizer.name,
        "seed": spec.seed,
        "stage": spec.stage,
        "out": folder,
    }


def _begin_attempt(spec: TrialSpec, folders: Folders, options: ProgramOptions, slot: DeviceSlot) -> list[States]:
    """Write the description of the trial for the program.

    Returns:
        The states of the files of results at the beginning of each attempt. An interrupted trial has several attempts.
    """
    own = folders.own
    own.mkdir(exist_ok=True)
    for earlier in own.glob(FINGERPRINTS):
        earlier.unlink()
    file = own / ABOUT
    attempts: list[States] = []
    if file.exists():
        attempts = json.loads(file.read_text())["attempts"]
    files = result_files(folders, options)
    if not is_elsewhere(options):
        for results in files.values():
            end_last_line(results)
    attempts.append(states(files))
    about = {**spec.to_json(), "attempt": len(attempts), "attempts": attempts, "device": slot.kind}
    write_atomically(file, json.dumps(about))
    return attempts


def _run(start: Start, folder: Path, slot: DeviceSlot, show_progress: Callable[[], None], longest: float) -> None:
    """Run a program until it ends, and show its progress.

    Raises:
        StillRunning: it has not ended after `longest` seconds.
        Paused: this process received SIGTERM, which is passed on to the program.
        ProgramFailed: the program ended with an error.
    """
    process = _started(start, folder)
    ended = threading.Event()

    def wait() -> None:
        process.wait()
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
            raise UsageError(f"the program {start.words[0]!r} cannot be started: {error.strerror}; {where}") from error


def _failure(code: int, folder: Path, slot: DeviceSlot, start: Start) -> ProgramFailed:
    """The error of a program that ended with a code. It has the end of the output, and the file of the output."""
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    output = "the end of its output"
    if slot.checkpoints:
        output += f", which is {own_folder(Path(slot.checkpoints) / folder.name) / OUTPUT}"
    if start.is_revision:
        how += " in the checkout of its revision, which has no files that git ignores (name such data by a full path)"
    end = _end_of(own_folder(folder) / OUTPUT)
    if REFUSES_FOLDER.search(end) and str(folder) in end:
        how += " (its folder {out} exists already, and is empty; {out}/new in the command is a folder that it can make)"
    return ProgramFailed(f"the program ended with {how}; {output}:\n{end}")


def _environment(folder: Path, slot: DeviceSlot, options: ProgramOptions) -> dict[str, str]:
    """The environment variables of a program: the GPUs of its trial, and a PATH with a Python.

    The Python is fairbench's, unless another environment is activated.
    """
    variables = {**os.environ, FOLDER: str(folder)}
    # The rank is that of this driver on a cluster; launchers number their own processes.
    variables.pop("RANK", None)
    if slot.gpus:
        variables["CUDA_VISIBLE_DEVICES"] = _visible_gpus(slot.gpus, variables.get("CUDA_VISIBLE_DEVICES", ""))
    if options.cores > 1:
        # The number of threads is that of this process; launchers and libraries choose one for several cores.
        variables.pop("OMP_NUM_THREADS", None)
    if "VIRTUAL_ENV" not in variables and "CONDA_PREFIX" not in variables:
        own_python = str(Path(sys.executable).parent)
        variables["PATH"] = own_python + os.pathsep + variables.get("PATH", os.defpath)
    return variables


def _visible_gpus(numbers: str, visible: str) -> str:
    """The names of some GPUs for CUDA.

    Args:
        numbers: the numbers of the GPUs among those that this process can use, as "0,1".
        visible: the names of the GPUs that this process can use; empty for all of the machine.
    """
    if not visible:
        return numbers
    names = dict(enumerate(visible.split(",")))
    return ",".join(names.get(int(number), number) for number in numbers.split(","))


def _end_of(file: Path) -> str:
    """The last lines of a file. Only the end of the file is read."""
    with file.open("rb") as output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(size - 100 * SHOWN_LINES, 0))
        lines = output.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-SHOWN_LINES:])


def _show_progress(folders: Folders, options: ProgramOptions, attempts: list[States], progress: Progress) -> None:
    """Show the last training loss that a running program has reported."""
    with suppress(WrongResults, OSError):
        reported = read_reported(folders, options, attempts, ended=False)
        losses = reported.values.get("train/loss")
        if losses:
            step, loss = list(losses.items())[-1]
            if math.isfinite(loss):  # a progress message has no NaN; the record says that the trial diverged
                progress(step, loss)

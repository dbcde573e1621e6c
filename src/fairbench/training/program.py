"""A trial of a training program: it runs in a folder of its own, and what it reports there becomes the record."""

import hashlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from fairbench.arenas.program import ABOUT, FOLDER, ProgramOptions, code_of, command
from fairbench.common.errors import Paused, UsageError
from fairbench.common.files import write_atomically
from fairbench.common.formatting import some
from fairbench.common.leftover_processes import ending
from fairbench.common.terminal import say
from fairbench.study.record import Details, Hashes, MechanismReport, Result, Seconds, Series, TrialCost, WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.environment import environment
from fairbench.training.program_results import Reported, read_reported
from fairbench.training.result_files import WrongResults
from fairbench.training.trainer import Progress

OUTPUT = "output.txt"
"""The file of a trial's folder with what the program printed."""
FINGERPRINTS = "fingerprints-*.json"
"""What each rank has shown."""
SHOWN_LINES = 80
"""Lines of a failed program's output that its message has: torchrun adds 40 to those of the process that failed."""
GRACE = 30.0
"""Seconds that a program has to write its checkpoint and to end after SIGTERM."""
CHECK_SECONDS = 1.0
"""Least seconds between two checks of what a running program has reported."""


class ProgramFailed(Exception):
    """A program ended with an error; the message has the end of its output."""


def program_trial(spec: TrialSpec, slot: DeviceSlot, progress: Progress) -> WholeRecord:
    """The record of a training program that ended with a result, or with one that is not finite.

    Its folder is kept until the trial has a record; at a slot without checkpoints it is a temporary one.

    Raises:
        Paused: this process received SIGTERM, and so did the program.
        ProgramFailed, WrongResults: the program ended with an error, or its results contradict themselves.
    """
    options = ProgramOptions(**spec.arena.model)
    _check_code(spec, options)
    with tempfile.TemporaryDirectory(prefix="fairbench-") as temporary:
        folder = Path(slot.checkpoints or temporary).resolve() / spec.id
        folder.mkdir(parents=True, exist_ok=True)
        with ending(FOLDER, str(folder)):
            attempts = _begin_attempt(spec, folder, options, slot)
            show_progress = partial(_show_progress, folder, options, attempts, progress)
            words = command(options, values(spec, folder))
            began = time.monotonic()
            _run(words, folder, slot, options, show_progress)
            seconds = time.monotonic() - began
        reported = read_reported(folder, options, attempts)
        if reported.restarted:
            say("the trial restarted with its first step: the program does not resume from its own checkpoint")
        return _record(spec, slot, options, reported, Fingerprints.read(folder), seconds)


def _check_code(spec: TrialSpec, options: ProgramOptions) -> None:
    """Refuse a program of which a file was changed since the study was planned."""
    planned = dict(spec.arena.code)
    now = code_of(options)
    changed = [file for file in {**planned, **now} if planned.get(file) != now.get(file)]
    if changed:
        raise UsageError(f"{some(changed)} was changed after this run had started: run the same command again")


def values(spec: TrialSpec, folder: Path) -> dict[str, Any]:
    """The values of the placeholders; None for one that the trial does not set."""
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


def _begin_attempt(spec: TrialSpec, folder: Path, options: ProgramOptions, slot: DeviceSlot) -> list[dict[str, int]]:
    """Write what the program may read; returns the sizes of the files of results when each attempt began."""
    for earlier in folder.glob(FINGERPRINTS):
        earlier.unlink()
    file = folder / ABOUT
    attempts: list[dict[str, int]] = []
    if file.exists():
        attempts = json.loads(file.read_text())["attempts"]
    sizes = {}
    for results in folder.glob(options.results):
        sizes[str(results.relative_to(folder))] = results.stat().st_size
    attempts.append(sizes)
    about = {**spec.to_json(), "attempt": len(attempts), "attempts": attempts, "device": slot.kind}
    write_atomically(file, json.dumps(about))
    return attempts


def _run(
    words: list[str], folder: Path, slot: DeviceSlot, options: ProgramOptions, show_progress: Callable[[], None]
) -> None:
    """Run a command until it ends. SIGTERM is passed on."""
    process = _started(words, folder, slot, options)
    ended = threading.Event()

    def wait() -> None:
        process.wait()
        ended.set()

    # `Popen.wait` with a timeout would poll; after a signal's exception, `Thread.join` takes the thread for ended.
    threading.Thread(target=wait, daemon=True).start()
    try:
        pause = CHECK_SECONDS
        while not ended.is_set():
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
        raise _failure(process.returncode, folder, slot)


def _started(words: list[str], folder: Path, slot: DeviceSlot, options: ProgramOptions) -> subprocess.Popen[bytes]:
    """The process of a command, whose output is added to a file of the folder."""
    with (folder / OUTPUT).open("ab") as output:
        try:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(folder, slot, options),
                start_new_session=True,
            )
        except OSError as error:
            where = f"it is started in {Path.cwd()}"
            raise UsageError(f"the program {words[0]!r} cannot be started: {error.strerror}; {where}") from error


def _failure(code: int, folder: Path, slot: DeviceSlot) -> ProgramFailed:
    """The error of a program that ended with a code, with the end of its output, and where that is kept."""
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    output = "the end of its output"
    if slot.checkpoints:
        output += f", which is {Path(slot.checkpoints) / folder.name / OUTPUT}"
    return ProgramFailed(f"the program ended with {how}; {output}:\n{_end_of(folder / OUTPUT)}")


def _environment(folder: Path, slot: DeviceSlot, options: ProgramOptions) -> dict[str, str]:
    """The environment of a program: the GPUs of its trial, and fairbench's Python unless another one is activated."""
    found = {**os.environ, FOLDER: str(folder)}
    found.pop("RANK", None)  # of this driver, where a cluster numbers them; launchers number their own processes
    if slot.gpus:
        found["CUDA_VISIBLE_DEVICES"] = _visible_gpus(slot.gpus, found.get("CUDA_VISIBLE_DEVICES", ""))
    if options.cores > 1:
        found.pop("OMP_NUM_THREADS", None)  # of this process; launchers and libraries choose for several cores
    if "VIRTUAL_ENV" not in found and "CONDA_PREFIX" not in found:
        own_folder = str(Path(sys.executable).parent)
        found["PATH"] = own_folder + os.pathsep + found.get("PATH", os.defpath)
    return found


def _visible_gpus(numbers: str, visible: str) -> str:
    """The names of some GPUs, which are numbered as those that are visible to this process."""
    if not visible:
        return numbers
    names = dict(enumerate(visible.split(",")))
    return ",".join(names.get(int(number), number) for number in numbers.split(","))


def _end_of(file: Path) -> str:
    """The last lines of a file, of which only the end is read."""
    with file.open("rb") as output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(size - 100 * SHOWN_LINES, 0))
        lines = output.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-SHOWN_LINES:])


def _show_progress(folder: Path, options: ProgramOptions, attempts: list[dict[str, int]], progress: Progress) -> None:
    """Show the last step with a training loss that a running program has reported."""
    with suppress(WrongResults, OSError):
        reported = read_reported(folder, options, attempts, ended=False)
        losses = reported.values.get("train/loss")
        if losses:
            step, loss = list(losses.items())[-1]
            progress(step, loss)


class Fingerprints(msgspec.Struct, frozen=True):
    """What a program has shown by `fairbench.trial`, see `fairbench.trial.fingerprints`; empty without that."""

    initial_weights: str = ""
    batches: str = ""
    final_weights: str = ""
    parameters: int = 0
    path_length: float | None = None
    mechanism: MechanismReport | None = None

    @classmethod
    def read(cls, folder: Path) -> "Fingerprints":
        """The fingerprints of all ranks: that of the first, with the batches of all."""
        files = sorted(folder.glob(FINGERPRINTS), key=lambda file: int(file.stem.partition("-")[2]))
        ranks = [msgspec.json.decode(file.read_bytes(), type=cls) for file in files]
        if not ranks:
            return cls()
        if len(ranks) == 1:
            return ranks[0]
        batches = [rank.batches for rank in ranks]
        joined = ""
        if all(batches):
            joined = hashlib.sha256(" ".join(batches).encode()).hexdigest()
        return msgspec.structs.replace(ranks[0], batches=joined)


def _record(
    spec: TrialSpec,
    slot: DeviceSlot,
    options: ProgramOptions,
    reported: Reported,
    fingerprints: Fingerprints,
    seconds: float,
) -> WholeRecord:
    """The record of a program that has ended without an error, done its steps and reported their results."""
    steps = spec.training.steps
    last = reported.last
    tested = "val" if spec.training.selection == "test" else "test"  # such a suite has one split for both
    status: Literal["finished", "diverged"] = "finished" if reported.finite else "diverged"
    final: dict[str, dict[str, float]] | None = None
    if last > steps:
        raise WrongResults(f"it reported step {last}, and its trial has {steps}; {{steps}} in the command tells it")
    if status == "finished":
        final = {"val": _at_end("val", reported, steps, options)}
        if spec.stage == "final":
            final["test"] = _at_end(tested, reported, steps, options)
    result = Result(
        steps=steps if status == "finished" else max(last, 1),
        final=final,
        hashes=Hashes(fingerprints.initial_weights, fingerprints.batches, "", fingerprints.final_weights),
        parameters=fingerprints.parameters,
        clip_rate=0.0,
        path_length=fingerprints.path_length,
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    phases = Seconds(data=0.0, forward=0.0, backward=0.0, step=seconds, eval=0.0, log=0.0, total=seconds)
    losses = reported.rows({"loss": "train/loss"}, steps)
    metrics = reported.rows({metric: f"val/{metric}" for metric in options.metrics}, steps)
    details = Details(_series(losses), _series(metrics), fingerprints.mechanism)
    return WholeRecord(
        id=spec.id,
        stage=spec.stage,
        status=status,
        result=result,
        cost=TrialCost(
            seconds=phases,
            steps=result.steps,
            peak_memory_bytes=peak,
            alone=slot.alone,
            data_on="program",
        ),
        environment=environment(slot.device),
        details=details,
    )


def _series(rows: Mapping[int, Mapping[str, float]]) -> Series:
    """Values after steps as a record has them, without steps with one that is not finite."""
    finite = {step: row for step, row in rows.items() if all(map(math.isfinite, row.values()))}
    columns: dict[str, list[float]] = {}
    for row in finite.values():
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return Series(list(finite), columns)


def _at_end(split: str, reported: Reported, steps: int, options: ProgramOptions) -> dict[str, float]:
    """The metrics of a split after the last step."""
    rows = reported.rows({metric: f"{split}/{metric}" for metric in options.metrics}, steps)
    if steps in rows:
        return rows[steps]
    names = ", ".join(options.names[f"{split}/{metric}"] for metric in options.metrics)
    found = "there is none"
    if rows:
        found = f"the last is of step {max(rows)}"
    elif reported.names:
        found = f"there is none among {some(sorted(reported.names))}"
    advice = "report it at the end"
    if split == "test":
        advice += '; without a test split, breaks = ["split"] in the suite takes the validation split'
    raise WrongResults(f"{options.results} has no {names} at step {steps}: {found}; {advice}")

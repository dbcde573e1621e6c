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
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from fairbench.arenas.program import ABOUT, FOLDER, ProgramOptions, code_of, command
from fairbench.common.errors import Paused, UsageError
from fairbench.common.files import write_atomically
from fairbench.common.formatting import some
from fairbench.common.processes import ending
from fairbench.common.terminal import say
from fairbench.study.record import Details, Hashes, MechanismReport, Result, Seconds, Series, TrialCost, WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.environment import environment
from fairbench.training.program_results import Reported, WrongResults, read_reported
from fairbench.training.trainer import Progress

OUTPUT = "output.txt"
"""The file of a trial's folder with what the program printed."""
FINGERPRINTS = "fingerprints-*.json"
"""What each rank has shown."""
SHOWN_LINES = 80
"""Lines of a failed program's output that its message has: torchrun adds 40 to those of the process that failed."""
GRACE = 30.0
"""Seconds that a program has to write its checkpoint and to end after SIGTERM."""
LOOK = 1.0
"""Least seconds between two looks at what a running program has reported."""


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
    planned, now = dict(spec.arena.code), code_of(options)
    if changed := [file for file in {**planned, **now} if planned.get(file) != now.get(file)]:
        raise UsageError(f"{some(changed)} was changed after this run had started: run the same command again")
    with tempfile.TemporaryDirectory(prefix="fairbench-") as temporary:
        folder = Path(slot.checkpoints or temporary).resolve() / spec.id
        folder.mkdir(parents=True, exist_ok=True)
        with ending(FOLDER, str(folder)):
            attempts = _begin_attempt(spec, folder, options, slot)
            look, began = partial(_look, folder, options, attempts, progress), time.monotonic()
            _run(command(options, values(spec, folder)), folder, slot, options, look)
            seconds = time.monotonic() - began
        reported = read_reported(folder, options, attempts)
        if reported.restarted:
            say("the trial restarted with its first step: the program does not resume from its own checkpoint")
        return _record(spec, slot, options, reported, Fingerprints.read(folder), seconds)


def values(spec: TrialSpec, folder: Path) -> dict[str, Any]:
    """The values of the placeholders; None for one that the trial does not set."""
    training = {key: value for key, value in vars(spec.training).items() if isinstance(value, int | float | str)}
    arena = {"batch_size": spec.arena.batch_size or None, **{x: spec.arena.model[x] or None for x in ("gpus", "size")}}
    own = {"optimizer": spec.optimizer.name, "seed": spec.seed, "stage": spec.stage, "out": folder}
    return {**training, **arena, "cores": spec.arena.model["cores"], **spec.optimizer.options, **own}


def _begin_attempt(spec: TrialSpec, folder: Path, options: ProgramOptions, slot: DeviceSlot) -> list[dict[str, int]]:
    """Write what the program may read; returns the sizes of the files of results when each attempt began."""
    for earlier in folder.glob(FINGERPRINTS):
        earlier.unlink()
    file = folder / ABOUT
    attempts = json.loads(file.read_text())["attempts"] if file.exists() else []
    attempts.append({str(x.relative_to(folder)): x.stat().st_size for x in folder.glob(options.results)})
    about = {**spec.to_json(), "attempt": len(attempts), "attempts": attempts, "device": slot.kind}
    write_atomically(file, json.dumps(about))
    return attempts


def _run(words: list[str], folder: Path, slot: DeviceSlot, options: ProgramOptions, look: Any) -> None:
    """Run a command until it ends. SIGTERM is passed on."""
    with (folder / OUTPUT).open("ab") as output:
        try:
            process = subprocess.Popen(
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
    ended = threading.Event()

    def wait() -> None:
        process.wait()
        ended.set()

    # `Popen.wait` with a timeout would poll; after a signal's exception, `Thread.join` takes the thread for ended.
    threading.Thread(target=wait, daemon=True).start()
    try:
        pause = LOOK
        while not ended.is_set():
            ended.wait(pause)
            began = time.monotonic()
            look()
            pause = max(LOOK, 100 * (time.monotonic() - began))  # a long file is read less often
    except Paused:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        ended.wait(GRACE)
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        code = process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        kept = f", which is {Path(slot.checkpoints) / folder.name / OUTPUT}" if slot.checkpoints else ""
        raise ProgramFailed(f"the program ended with {how}; the end of its output{kept}:\n{_end_of(folder / OUTPUT)}")


def _environment(folder: Path, slot: DeviceSlot, options: ProgramOptions) -> dict[str, str]:
    """The environment of a program: the GPUs of its trial, and fairbench's Python unless another one is activated."""
    found = {**os.environ, FOLDER: str(folder)}
    found.pop("RANK", None)  # of this driver, where a cluster numbers them; launchers number their own processes
    if slot.gpus:
        visible = found.get("CUDA_VISIBLE_DEVICES")
        names = dict(enumerate(visible.split(","))) if visible else {}
        found["CUDA_VISIBLE_DEVICES"] = ",".join(names.get(int(x), x) for x in slot.gpus.split(","))
    if options.cores > 1:
        found.pop("OMP_NUM_THREADS", None)  # of this process; launchers and libraries choose for several cores
    if not {"VIRTUAL_ENV", "CONDA_PREFIX"} & found.keys():
        found["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{found.get('PATH', os.defpath)}"
    return found


def _end_of(file: Path) -> str:
    """The last lines of a file, of which only the end is read."""
    with file.open("rb") as output:
        output.seek(max(output.seek(0, os.SEEK_END) - 100 * SHOWN_LINES, 0))
        return "\n".join(output.read().decode(errors="replace").splitlines()[-SHOWN_LINES:])


def _look(folder: Path, options: ProgramOptions, attempts: list[dict[str, int]], progress: Progress) -> None:
    """Show the last step with a training loss that a running program has reported."""
    with suppress(WrongResults, OSError):
        losses = read_reported(folder, options, attempts, ended=False).values.get("train/loss")
        if losses:
            progress(*list(losses.items())[-1])


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
        batches = [rank.batches for rank in ranks]
        joined = hashlib.sha256(" ".join(batches).encode()).hexdigest() if all(batches) and len(batches) > 1 else ""
        return msgspec.structs.replace(ranks[0], batches=joined) if len(ranks) > 1 else ranks[0]


def _record(
    spec: TrialSpec,
    slot: DeviceSlot,
    options: ProgramOptions,
    reported: Reported,
    fingerprints: Fingerprints,
    seconds: float,
) -> WholeRecord:
    """The record of a program that has ended without an error, done its steps and reported their results."""
    steps, last = spec.training.steps, reported.last
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
    phases = Seconds(0.0, 0.0, 0.0, seconds, 0.0, 0.0, total=seconds)
    losses = reported.rows({"loss": "train/loss"}, steps)
    metrics = reported.rows({x: f"val/{x}" for x in options.metrics}, steps)
    details = Details(_series(losses), _series(metrics), fingerprints.mechanism)
    return WholeRecord(
        id=spec.id,
        stage=spec.stage,
        status=status,
        result=result,
        cost=TrialCost(phases, result.steps, peak, slot.alone, data_on="program"),
        environment=environment(slot.device),
        details=details,
    )


def _series(rows: Mapping[int, Mapping[str, float]]) -> Series:
    """Values after steps as a record has them, without steps with one that is not finite."""
    finite = {step: row for step, row in rows.items() if all(map(math.isfinite, row.values()))}
    names = next(iter(finite.values()), {})
    return Series([*finite], {name: [row[name] for row in finite.values()] for name in names})


def _at_end(split: str, reported: Reported, steps: int, options: ProgramOptions) -> dict[str, float]:
    """The metrics of a split after the last step."""
    rows = reported.rows({x: f"{split}/{x}" for x in options.metrics}, steps)
    if steps in rows:
        return rows[steps]
    names = ", ".join(options.names[f"{split}/{x}"] for x in options.metrics)
    none = f"there is none{f' among {some(sorted(reported.names))}' if reported.names else ''}"
    found = f"the last is of step {max(rows)}" if rows else none
    taken = '; without a test split, breaks = ["split"] in the suite takes the validation split'
    advice = f"report it at the end{taken if split == 'test' else ''}"
    raise WrongResults(f"{options.results} has no {names} at step {steps}: {found}; {advice}")

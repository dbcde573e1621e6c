"""A trial of a training program. The program runs in a folder of its own, and its reports become the record."""

from __future__ import annotations

import fcntl
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairbench.arenas.program import ABOUT, ASKED, FOLDER, ProgramOptions, own_folder
from fairbench.arenas.program_code import hashes_of
from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.common.formatting import some
from fairbench.common.leftover_processes import ending_leftovers
from fairbench.common.terminal import say
from fairbench.study.record import WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.machine_load import Load, LoadMeter
from fairbench.training.missing_metric import missing_metric
from fairbench.training.program_process import (
    REFUSES_FOLDER,
    ProgramFailed,
    StillRunning,
    check_ended_well,
    run_program,
)
from fairbench.training.program_record import FINGERPRINTS, Fingerprints, program_record
from fairbench.training.program_results import Reported, read_reported
from fairbench.training.program_start import folder_of, start_of
from fairbench.training.result_files import Folders, States, end_last_line, is_elsewhere, result_files, states
from fairbench.training.result_names import WrongResults

if TYPE_CHECKING:
    from fairbench.training.trainer import Progress  # it loads what a step of torch needs, and no program does

SET_ASIDE = "earlier-"
"""The beginning of the name of a folder with what the program wrote before it began again in an empty one."""


def program_trial(
    spec: TrialSpec,
    slot: DeviceSlot,
    progress: Progress,
    longest: float = math.inf,
    show: Callable[[Reported], None] = lambda reported: None,
) -> WholeRecord:
    """Run the training program of a trial, and make its record. The trial has finished or diverged.

    The folder of the program is kept until the trial has a record. At a slot without checkpoints it is temporary.

    Args:
        spec: the trial.
        slot: where it runs.
        progress: called with a step and its training loss while the program runs.
        longest: the seconds after which the program is stopped.
        show: called with what the program has reported when it ends or is stopped.

    Raises:
        StillRunning: the program ran for the longest time.
        Paused: this process received SIGTERM, and so did the program.
        ProgramFailed, WrongResults: the program ended with an error, or its results are wrong.
        NoTestSplit: it reports no test split, and does not know whether a trial is one of the search.
    """
    options = ProgramOptions(**spec.arena.model)
    _check_code(spec)
    with tempfile.TemporaryDirectory(prefix="fairbench-") as temporary, _alone_where_it_writes(spec, slot, options):
        folder = Path(slot.checkpoints or temporary).resolve() / spec.id
        folder.mkdir(parents=True, exist_ok=True)
        with ending_leftovers(FOLDER, str(folder)):
            try:
                ended = _attempt(spec, folder, slot, progress, longest, show)
            except ProgramFailed as error:
                if _is_first_attempt(folder) or not REFUSES_FOLDER.search(error.end):
                    raise
                say("the program refuses the folder of its interrupted attempt, and starts again in an empty one")
                _set_aside(folder)
                ended = _attempt(spec, folder, slot, progress, longest, show)
        folders = Folders(folder, folder_of(spec.optimizer.variant or {}, slot))
        reported = read_reported(folders, options, ended.states)
        show(reported)
        if not options.own_length and not reported.counted and reported.last + 1 < spec.training.steps:
            check_ended_well(folder, slot)
        if reported.restarted:
            say("the trial restarted with its first step: the program does not resume from its own checkpoint")
        has_one_attempt = len(ended.states) == 1
        load = ended.load if has_one_attempt else None  # that of earlier attempts is not known
        fingerprints = Fingerprints.read(own_folder(folder))
        record = program_record(
            spec,
            slot,
            options,
            reported,
            fingerprints,
            seconds=ended.seconds,
            peak_memory_bytes=ended.peak_memory_bytes,
            load=load,
        )
        if record.status == "finished":
            _check_test_split(spec, options, reported, own_folder(folder))
        return record


def _check_test_split(spec: TrialSpec, options: ProgramOptions, reported: Reported, own: Path) -> None:
    """Raise `NoTestSplit` in a trial of the search whose program will report no test split in final trials either.

    A program that knows the stage of its trial may report that split in final trials only. `own` is the folder of
    fairbench's own files of the trial.
    """
    has_two_splits = spec.training.selection == "val" and spec.training.decides == "test"
    if spec.stage != "sweep" or not has_two_splits:
        return
    variant = spec.optimizer.variant or {}
    words = [options.program, variant.get("args", ""), *variant.get("env", {}).values()]
    knows_stage = any("{stage}" in word for word in words) or (own / f"{ASKED}about").exists()
    is_tested = any(key.startswith("test/") for key in (*reported.values, *reported.result))
    if not knows_stage and not is_tested:
        metric = next(iter(options.metrics))
        raise missing_metric(f"test/{metric}", reported, options, spec.arena.name)


@contextmanager
def _alone_where_it_writes(spec: TrialSpec, slot: DeviceSlot, options: ProgramOptions) -> Iterator[None]:
    """Let one trial run at a time in the folder of the program if trials write the same files there.

    Where the results are there, only time tells those of two trials apart.
    """
    if not slot.alone_in_folder and not is_elsewhere(options):
        yield
        return
    descriptor = os.open(folder_of(spec.optimizer.variant or {}, slot), os.O_RDONLY)
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
        peak_memory_bytes: the most memory of a process of this attempt.
        load: the load of the machine during this attempt.
    """

    states: list[States]
    seconds: float
    peak_memory_bytes: int
    load: Load


def _attempt(
    spec: TrialSpec,
    folder: Path,
    slot: DeviceSlot,
    progress: Progress,
    longest: float,
    show: Callable[[Reported], None],
) -> Attempt:
    """Run the program of a trial once."""
    options = ProgramOptions(**spec.arena.model)
    started = start_of(spec, folder, slot, options)
    folders = Folders(folder, started.folder)
    attempts = _begin_attempt(spec, folders, options, slot)
    show_progress = partial(_show_progress, folders, options, attempts, progress)
    began = time.monotonic()
    meter = LoadMeter()
    try:
        peak = run_program(started, folder, slot, show_progress, longest)
    except StillRunning:
        show(read_reported(folders, options, attempts, ended=False))
        raise
    return Attempt(attempts, seconds=time.monotonic() - began, peak_memory_bytes=peak, load=meter.read())


def _is_first_attempt(folder: Path) -> bool:
    """Whether a trial has had no attempt before the last one."""
    about = json.loads((own_folder(folder) / ABOUT).read_text())
    return len(about["attempts"]) == 1


def _set_aside(folder: Path) -> None:
    """Move what earlier attempts have written, so that the next attempt is the first one in an empty folder."""
    own = own_folder(folder)  # next to it, not inside of it
    earlier = list(own.glob(f"{SET_ASIDE}*"))
    folder.rename(own / f"{SET_ASIDE}{len(earlier) + 1}")
    (own / ABOUT).unlink()
    folder.mkdir()


def _check_code(spec: TrialSpec) -> None:
    """Raise UsageError if a file of the program was changed since the study was planned."""
    variant = spec.optimizer.variant
    if variant is not None and "commit" in variant:
        return  # a commit does not change
    if variant is None:
        planned = spec.arena.code
        folder = Path()
    else:
        planned = spec.optimizer.code
        folder = Path(variant.get("folder", ""))
    # A new file is none of the planned ones: the program itself may have written it.
    now = hashes_of(planned, folder)
    changed = [file for file in planned if planned[file] != now.get(file)]
    if changed:
        advice = "run the same command again"
        if variant is not None:
            advice += "; a variant with the revision @ has the files as they are when the study begins"
        raise UsageError(f"{some(changed)} was changed after this run had started: {advice}")


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


def _show_progress(folders: Folders, options: ProgramOptions, attempts: list[States], progress: Progress) -> None:
    """Show the last training loss that a running program has reported."""
    with suppress(WrongResults, OSError):
        reported = read_reported(folders, options, attempts, ended=False)
        losses = reported.values.get("train/loss")
        if losses:
            step, loss = list(losses.items())[-1]
            if math.isfinite(loss):  # a progress message has no NaN; the record says that the trial diverged
                progress(step, loss)

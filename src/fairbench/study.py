"""The course of a study: plan, run what is missing, keep every record, report."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console

from fairbench.analysis.environments import grounds
from fairbench.arenas import ARENAS
from fairbench.code import arena_libraries
from fairbench.data.prepared import opened
from fairbench.data.request import wanted
from fairbench.errors import UsageError
from fairbench.executors import Executor, Place
from fairbench.executors.processes import CALL_LIMIT, ProcessExecutor
from fairbench.forecast import trial_seconds
from fairbench.history import History, read_history, write_history
from fairbench.observers import Observer, Observers
from fairbench.optimizers import known_optimizers
from fairbench.plan import Lookup, Outlook, Record, Schedule, Study, timing_trials
from fairbench.presence import Presence
from fairbench.progress import Progress
from fairbench.rehearsal import Rehearsal, rehearse
from fairbench.spec import TrialSpec
from fairbench.store import Store
from fairbench.suite import Suite

PRELOAD = ("fairbench.cli", "fairbench.study", "fairbench.trial", "fairbench.code", "sklearn.datasets")
"""What every process loads: the trial's modules, and those of the command, which multiprocessing runs again in it."""
LEAST_LIMIT = 300.0
"""Seconds that every trial may take, since loading takes some that neither steps nor evaluations tell of."""
GENEROSITY = 50
GB = 1e9
CONTEXT_BYTES = 600_000_000
"""What CUDA itself takes of a GPU in each process, about: torch does not tell."""


def run_study(
    suite: Suite,
    directory: Path,
    places: Sequence[Place],
    server: bool,
    console: Console,
    trial_timeout: float = 0.0,
    timing: bool = False,
    observers: Sequence[Observer] = (),
) -> None:
    """Run every trial of a suite that has no record yet.

    Args:
        suite: the suite.
        directory: the output directory.
        places: where trials run at the same time, one at each.
        server: whether trials are forked from a server, else from this process.
        console: where progress is shown.
        trial_timeout: seconds that a trial may take; 0 takes the suite's, or what the rehearsal suggests.
        timing: whether to measure afterwards what a step of each optimizer costs.
        observers: who else is told of its course.

    Raises:
        UsageError: the directory holds another suite, cannot be written, or has a damaged record; or so many trials
            as shall share a GPU have no room there.
        KeyboardInterrupt: the user stopped it; finished trials are kept.
    """
    check_data(suite, places[0].data_root)
    store = Store(directory)
    searched = suite.sweep.extra
    progress, presence = Progress(console, len(places), searched=searched), Presence(directory, searched=searched)
    with store.locked(), Observers(progress, presence, *observers) as observer:
        history = read_history(directory)
        check_directory(suite, directory, history)
        limit = trial_timeout or suite.trial_timeout
        with ProcessExecutor(places, observer.running, preload(suite), max(limit, CALL_LIMIT), server) as executor:
            rehearsal = rehearse(suite, places[0], executor.call)
            check_room(rehearsal, max(Counter(place.device for place in places).values()))
            write_history(directory, history.declare(rehearsal.study, now(), store.final_trials()))
            limits = time_limits(rehearsal, limit)
            run_missing(rehearsal.study, store, executor, observer, limits)
        if timing:
            alone = [replace(places[0], alone=True)]
            with ProcessExecutor(alone, observer.running, preload(suite), server=server) as executor:
                run_timing(rehearsal.study, store, executor, observer, limits)


def plan_study(suite: Suite, directory: Path, place: Place, freeze: bool) -> tuple[Rehearsal, History]:
    """Rehearse a suite and declare it, without any trial.

    Args:
        suite: the suite.
        directory: the output directory.
        place: where it is rehearsed.
        freeze: write the plan into the directory, so that it cannot be changed there.

    Returns:
        What was rehearsed, and the history of the directory with it.

    Raises:
        UsageError: the directory holds another suite, or another plan that is frozen, or final trials.
    """
    check_data(suite, place.data_root)
    with ProcessExecutor([place], lambda spec, step, loss: None, preload(suite), server=False) as executor:
        rehearsal = rehearse(suite, place, executor.call)
    store = Store(directory)
    with store.locked() if freeze else nullcontext():
        history = read_history(directory)
        check_directory(suite, directory, history)
        final_trials = store.final_trials()
        history = history.declare(rehearsal.study, now(), final_trials)
        if freeze:
            history = history.freeze(final_trials)
            write_history(directory, history)
    return rehearsal, history


def check_data(suite: Suite, data_root: str) -> None:
    """See that everything the suite reads is prepared, before anything is loaded.

    Raises:
        UsageError: something is not; the message says which commands get it.
    """
    missing = []
    for asked in wanted(suite):
        try:
            opened(asked, Path(data_root))
        except UsageError as error:
            missing.append(str(error))
    if missing:
        raise UsageError("\n".join(missing))


def preload(suite: Suite) -> list[str]:
    """The modules that the processes of a suite's trials need."""
    known = (known_optimizers()[name] for name, plan in suite.optimizers.items() if not plan.factory)
    arenas = sorted({module for name in suite.arenas for module in _modules_of(suite.task(name))})
    return [*PRELOAD, *arenas, *(facts.factory.partition(":")[0] for facts in known)]


def _modules_of(task: str) -> list[str]:
    """The modules that an arena needs; a user's own file is for each process to load."""
    return [ARENAS[task].factory.partition(":")[0]] if task in ARENAS else arena_libraries(task)


def now() -> str:
    """The time, in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def time_limits(rehearsal: Rehearsal, trial_timeout: float) -> dict[str, float]:
    """How many seconds a trial of each arena may take: so many, or generously more than the rehearsal suggests."""
    longest = {name: max(trial_seconds(rehearsal, name).values()) for name in rehearsal.study.suite.arenas}
    return {name: trial_timeout or LEAST_LIMIT + GENEROSITY * seconds for name, seconds in longest.items()}


def check_room(rehearsal: Rehearsal, sharing: int) -> None:
    """See that trials which share a GPU fit on it together, by what their first steps took in the rehearsal.

    Args:
        rehearsal: the study and what its trials take.
        sharing: trials at a time on one GPU.

    Raises:
        UsageError: in some arena they do not; the message says how many do.
    """
    largest = max(rehearsal.gpu_bytes, key=lambda arena: rehearsal.gpu_bytes[arena])
    taken, room = rehearsal.gpu_bytes[largest] + CONTEXT_BYTES, rehearsal.gpu_room + CONTEXT_BYTES
    if rehearsal.gpu_room and room < sharing * taken and sharing > 1:
        raise UsageError(
            f"--trials-per-gpu {sharing}: a trial of arena {largest} takes {taken / GB:.1f} GB of a GPU with "
            f"{room / GB:.1f} GB free; at most {max(room // taken, 1)} fit"
        )


def run_missing(
    study: Study, store: Store, executor: Executor, observer: Observer, limits: Mapping[str, float]
) -> None:
    """Run trials until none is missing; each record is on disk before the next trial is planned."""
    records: dict[str, Record | None] = {}
    running: dict[str, TrialSpec] = {}

    def lookup(spec: TrialSpec) -> Record | None:
        """The record, read once; what failed in an earlier run is tried again."""
        if spec.id not in records:
            record = store.read(spec)
            records[spec.id] = None if record and record["status"] == "failed" else record
            if kept := records[spec.id]:
                observer.found(spec, kept)
        return records[spec.id]

    schedule = Schedule(study, lookup)
    if schedule.outlook().steps_left != dict.fromkeys(study.suite.arenas, 0):
        observer.say(mixing(filter(None, records.values()), study.environment))
    while True:
        observer.planned(schedule.outlook())
        while executor.has_room() and (spec := schedule.next()):
            running[spec.id] = spec
            observer.started(spec)
            executor.submit(spec, limits[spec.arena.name])
        if not running:
            return
        for record in executor.collect():
            spec = running.pop(record["id"])
            store.write(record)
            records[spec.id] = record
            schedule.ended(spec)
            observer.ended(spec, record)


def run_timing(study: Study, store: Store, executor: Executor, observer: Observer, limits: Mapping[str, float]) -> None:
    """Run the timing trials that have no record yet, one after the other."""
    missing = [spec for spec in timing_trials(study) if store.read(spec) is None]
    steps = dict.fromkeys(study.suite.arenas, 0)
    for done, spec in enumerate(missing):
        observer.planned(Outlook(done, len(missing), steps))
        observer.started(spec)
        executor.submit(spec, limits[spec.arena.name])
        (record,) = executor.collect()
        store.write(record)
        observer.ended(spec, record)


def mixing(records: Iterable[Record], environment: Mapping[str, str]) -> str:
    """What finished trials had of machine and versions that is not here; empty if all is as it was."""
    found = grounds(record["environment"] for record in records if record["environment"])
    differing = [
        f"  {fact}: {' / '.join(values)}; here {environment[fact]}"
        for fact, values in found.items()
        if fact in environment and values != (environment[fact],)
    ]
    lines = "\n".join(differing)
    return (
        f"warning: what follows runs on other ground than the finished trials, the report will say so\n{lines}"
        if lines
        else ""
    )


def check_directory(suite: Suite, directory: Path, history: History) -> None:
    """Refuse to mix two suites in one output directory.

    Raises:
        UsageError: the directory holds another suite's study.
    """
    if history.plans and (held := history.study.suite.name) != suite.name:
        raise UsageError(f"{directory} holds suite {held!r}, not {suite.name!r}; choose another --output-dir")


def held_study(directory: Path) -> tuple[History, Lookup]:
    """The plans of an output directory and its records as they are now; nothing is locked or written.

    Raises:
        UsageError: there is no study, or its configuration is damaged.
    """
    history = read_history(directory)
    if not history.plans:
        reason = "there is no config.json" if directory.is_dir() else "there is no such directory"
        raise UsageError(f"{directory} holds no study: {reason}")
    return history, Store(directory).snapshot()

"""The course of a study: plan, run what is missing, keep every record, report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from fairbench.arenas import ARENAS
from fairbench.claims import Claims, open_claims
from fairbench.code import arena_libraries
from fairbench.company import Company, units_of
from fairbench.conduct import Conduct
from fairbench.course import Course, run_timing
from fairbench.data.prepared import opened
from fairbench.data.request import wanted
from fairbench.errors import UsageError
from fairbench.executors import Checkpointing, Place
from fairbench.executors.chosen import executor_of
from fairbench.executors.processes import CALL_LIMIT, ProcessExecutor
from fairbench.forecast import trial_seconds
from fairbench.history import History, read_history
from fairbench.joining import check_directory, declared, join, put_in_force
from fairbench.observers import Observer, Observers
from fairbench.optimizers import known_optimizers
from fairbench.plan import Study
from fairbench.presence import Presence
from fairbench.progress import Progress
from fairbench.rehearsal import Rehearsal, rehearse
from fairbench.store import Store
from fairbench.suite import Suite

PRELOAD = (
    "fairbench.cli",
    "fairbench.study",
    "fairbench.trial",
    "fairbench.code",
    "fairbench.installed",
    "fairbench.resuming",
)
"""What every process loads: the trial's modules, and those of the command, which multiprocessing runs again in it."""
LEAST_LIMIT = 300.0
"""Seconds that every trial may take, since loading takes some that neither steps nor evaluations tell of."""
GENEROSITY = 50
GB = 1e9
CONTEXT_BYTES = 600_000_000
"""What CUDA itself takes of a GPU in each process, about: torch does not tell."""


def run_study(
    suite: Suite, directory: Path, conduct: Conduct, console: Console, observers: Sequence[Observer] = ()
) -> None:
    """Run every trial of a suite that has no record yet.

    Args:
        suite: the suite.
        directory: the output directory.
        conduct: how it is run.
        console: where progress is shown.
        observers: who else is told of its course.

    Raises:
        UsageError: the directory holds another suite, or another plan that somebody runs, or records of other ground;
            or it cannot be written, or has a damaged record; or so many trials as shall share a GPU have no room there.
        KeyboardInterrupt: the user stopped it; finished trials are kept.
        Preempted: so did a signal.
    """
    check_data(suite, conduct.places[0].data_root)
    check_directory(suite, directory, read_history(directory))
    store = Store(directory)
    store.prepare()
    searched = suite.sweep.extra
    progress, presence = Progress(console, searched=searched), Presence(directory, searched=searched)
    everybody = Observers(progress, presence, Company(presence, store), *observers)
    with everybody as observer, open_claims(store, presence) as claims:
        study, limits = _run_trials(suite, conduct, store, observer, presence, claims)
        if conduct.timing:
            _time_steps(study, limits, conduct, store, observer, claims)
    store.clear()


def _run_trials(
    suite: Suite, conduct: Conduct, store: Store, observer: Observer, presence: Presence, claims: Claims
) -> tuple[Study, dict[str, float]]:
    """Rehearse a suite, join those who run it, and run what is missing; returns the study and its time limits."""
    limit = conduct.trial_timeout or suite.trial_timeout
    every = suite.checkpoint_every if conduct.checkpoint_every is None else conduct.checkpoint_every
    checkpointing, call_limit = Checkpointing(str(store.checkpoints), every), max(limit, CALL_LIMIT)
    with executor_of(conduct, observer.running, observer.say, preload(suite), call_limit, checkpointing) as executor:

        def call(*asked: Any) -> Any:
            observer.beat()
            return executor.call(*asked)

        rehearsal = rehearse(suite, conduct.places[0], call)
        check_room(rehearsal, max(Counter(place.device for place in conduct.places).values()))
        limits = time_limits(rehearsal, limit)
        course = Course(rehearsal.study, store, observer)
        observer.say(join(course, store, claims, presence, conduct, units_of(conduct, rehearsal.gpus)))
        if not course.complete:
            observer.say(rehearsal.beginning_anew())
        course.run(claims, executor, limits, rehearsal.resumes)
    return rehearsal.study, limits


def _time_steps(
    study: Study, limits: Mapping[str, float], conduct: Conduct, store: Store, observer: Observer, claims: Claims
) -> None:
    """Run the timing trials that are missing, one at a time, and none while another driver does."""
    alone = replace(conduct, places=[replace(conduct.places[0], alone=True)])
    with (
        claims.holding("timing", observer.beat),
        executor_of(alone, observer.running, observer.say, preload(study.suite)) as executor,
    ):
        run_timing(study, store, executor, observer, limits)


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
        UsageError: the directory holds another suite, or another plan that is frozen or that somebody runs, or final
            trials.
    """
    check_data(suite, place.data_root)
    check_directory(suite, directory, read_history(directory))
    with ProcessExecutor([place], lambda spec, step, loss: None, preload(suite), server=False) as executor:
        rehearsal = rehearse(suite, place, executor.call)
    store = Store(directory)
    if not freeze:
        return rehearsal, declared(rehearsal.study, store, [])
    store.prepare()
    with Presence(directory) as presence, open_claims(store, presence) as claims, claims.holding("plan"):
        history = declared(rehearsal.study, store, presence.fellows(), freeze)
        put_in_force(history, directory)
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

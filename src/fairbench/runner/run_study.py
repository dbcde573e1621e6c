"""The course of a study: plan, run what is missing, keep every record, report."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from fairbench.arenas.registry import ARENAS
from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import configs_of
from fairbench.data.prepared import opened
from fairbench.optimizers.resolve import known_optimizers
from fairbench.runner.code_identity import arena_libraries
from fairbench.runner.coordination.claims import Claims, open_claims
from fairbench.runner.coordination.contention import Company
from fairbench.runner.coordination.heartbeat import Presence
from fairbench.runner.coordination.status import Word
from fairbench.runner.executors.factory import executor_of
from fairbench.runner.executors.local import CALL_LIMIT, ProcessExecutor
from fairbench.runner.observers import Observer, Observers
from fairbench.runner.preflight import rehearse
from fairbench.runner.progress.live import Progress
from fairbench.runner.run_options import Conduct, units_of
from fairbench.runner.trial_loop import Course, run_timing, untimed
from fairbench.study.environments import mixing
from fairbench.study.history import (
    History,
    _named,
    check_directory,
    declared,
    put_in_force,
    read_history,
)
from fairbench.study.plan import Study
from fairbench.study.preflight import Rehearsal, trial_seconds
from fairbench.study.records import Record, Store
from fairbench.suites.schema import Suite
from fairbench.training.place import Checkpointing, Place

PRELOAD = (
    "fairbench.cli.main",
    "fairbench.runner.run_study",
    "fairbench.training.trial",
    "fairbench.runner.code_identity",
    "fairbench.runner.installed_distributions",
    "fairbench.training.resume_check",
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
    for config in configs_of(suite.data_tables):
        try:
            opened(config, Path(data_root))
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


def join(
    course: Course, store: Store, claims: Claims, presence: Presence, conduct: Conduct, units: Sequence[str]
) -> str:
    """Put a study in force in its directory, and let others know that it is run from here.

    Args:
        course: what is to run.
        store: its records.
        claims: of this driver.
        presence: of this driver.
        conduct: whether it also measures what a step costs, and on which ground it may run trials.
        units: the cores or GPUs on which it runs them.

    Returns:
        What is to be said of the ground that they run on; empty if all is as it was.

    Raises:
        UsageError: something else is in force there, see `declared` and `check_ground`; nothing was changed.
    """
    with claims.holding("plan", presence.beat):
        others = presence.fellows()
        history = declared(course.study, store, others)
        idle = course.complete and not (conduct.timing and untimed(course.study, store))
        said = "" if idle else check_ground(course.study, course.records, others, conduct.allow_mixed)
        put_in_force(history, store.directory)
        presence.join(course.study.environment, units)
    return said


def check_ground(study: Study, records: Iterable[Record], others: Sequence[Word], allow_mixed: bool) -> str:
    """See that trials run on the ground of the finished ones, and of those that others run.

    Args:
        study: the study as it is here.
        records: of finished trials.
        others: who runs trials, too.
        allow_mixed: whether they may run on other ground.

    Returns:
        What is to be said of it; empty if all is as it was.

    Raises:
        UsageError: the ground is another one, and that is not allowed.
    """
    theirs = [record["environment"] for record in records if record["environment"]]
    differing = mixing([*theirs, *(word.environment for word in others)], study.environment)
    if not differing:
        return ""
    what = f"runs on other ground than the finished trials{f' and {_named(others)}' if others else ''}"
    if not allow_mixed:
        raise UsageError(
            f"what is left would be what {what}:\n{differing}\n"
            "--allow-mixed goes on all the same, and the report says so; or choose another --output-dir"
        )
    return f"warning: what follows {what}, the report will say so\n{differing}"

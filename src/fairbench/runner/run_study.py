"""Runs a study: preflight, admission, then every trial without a record."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fairbench.arenas.registry import ARENAS
from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import configs_of
from fairbench.optimizers.resolve import known_optimizers
from fairbench.runner.code_identity import arena_libraries
from fairbench.runner.coordination.claims import Claims, open_claims
from fairbench.runner.coordination.contention import Contention
from fairbench.runner.coordination.heartbeat import Heartbeat
from fairbench.runner.coordination.liveness import EXPIRY
from fairbench.runner.coordination.status import DriverStatus, names
from fairbench.runner.executors.base import Executor
from fairbench.runner.executors.local import CALL_LIMIT, ProcessExecutor
from fairbench.runner.observers import Observer, Observers
from fairbench.runner.preflight import run_preflight
from fairbench.runner.progress.live import Progress
from fairbench.runner.run_options import RunOptions
from fairbench.runner.trial_loop import TrialLoop
from fairbench.study.environments import environment_differences
from fairbench.study.history import History, check_directory, declare, write_history
from fairbench.study.plan import Study
from fairbench.study.preflight import Preflight, check_gpu_memory, time_limits
from fairbench.study.records import Record, Store
from fairbench.study.snapshot import Snapshot
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
"""Modules that every process loads: those of a trial, and those of the command, which multiprocessing runs again."""


def run_study(
    suite: Suite, directory: Path, options: RunOptions, console: Console, observers: Sequence[Observer] = ()
) -> None:
    """Run every trial of a suite that has no record yet.

    Args:
        options: how it is run.
        console: for progress.
        observers: further observers of the study.

    Raises:
        UsageError: the directory holds another suite, another plan that is running, or records of another environment;
            it cannot be written, or has a damaged record; or trials that share a GPU do not fit on it.
        KeyboardInterrupt: the user stopped it; finished trials are kept.
        Preempted: a signal stopped it, likewise.
    """
    check_data(suite, options.places[0].data_root)
    check_directory(suite, directory)
    store = Store(directory)
    store.prepare()
    heartbeat = Heartbeat(directory, searched=suite.sweep.extra)
    progress = Progress(console, searched=suite.sweep.extra)
    all_observers = Observers(progress, heartbeat, Contention(heartbeat, store), *observers)
    with all_observers as observer, open_claims(store, heartbeat) as claims:
        _run_trials(suite, options, store, observer, heartbeat, claims)
    store.clear()


def _run_trials(
    suite: Suite, options: RunOptions, store: Store, observer: Observer, heartbeat: Heartbeat, claims: Claims
) -> None:
    """Run the preflight of a suite, declare its plan, and run its missing trials."""
    limit = options.trial_timeout or suite.trial_timeout
    every = suite.checkpoint_every if options.checkpoint_every is None else options.checkpoint_every
    checkpointing = Checkpointing(str(store.checkpoints), every)
    with executor_of(options, observer, preload(suite), max(limit, CALL_LIMIT), checkpointing) as executor:

        def call(*function_and_arguments: Any) -> Any:
            observer.beat()
            return executor.call(*function_and_arguments)

        preflight = run_preflight(suite, options.places[0], call)
        check_gpu_memory(preflight, max(Counter(place.device for place in options.places).values()))
        limits = time_limits(preflight, limit)
        loop = TrialLoop(preflight.study, store, observer, options.timing)
        observer.say(admit(loop, store, claims, heartbeat, options.allow_mixed))
        if not loop.complete:
            observer.say(preflight.restart_notice())
        loop.run(claims, executor, limits, preflight.resumes)


def executor_of(
    options: RunOptions,
    observer: Observer,
    preload: Sequence[str] = (),
    call_limit: float = CALL_LIMIT,
    checkpointing: Checkpointing | None = None,
) -> Executor:
    """The executor for these options: processes of this machine, or a Ray cluster.

    Args:
        options: how the study is run.
        observer: notified of the progress of trials, and of nodes that get none.
        preload: modules that the trials will need.
        call_limit: seconds that a call may take.
        checkpointing: where trials write checkpoints, and how often; None for none.

    Raises:
        UsageError: Ray is requested, and is not installed.
    """
    if options.ray is None:
        return ProcessExecutor(options.places, observer.running, preload, call_limit, options.server, checkpointing)
    from fairbench.runner.executors.ray.executor import RayExecutor

    report, say = observer.running, observer.say
    return RayExecutor(
        options.ray, options.places, report, say, preload, call_limit, checkpointing, options.allow_mixed
    )


def plan_study(suite: Suite, directory: Path, place: Place, freeze: bool) -> tuple[Preflight, History]:
    """Run the preflight of a suite and declare its plan, without any trial.

    Args:
        place: where the preflight runs.
        freeze: whether to write the plan into the directory and freeze it.

    Raises:
        UsageError: the directory holds another suite, another plan that is frozen or running, or final trials.
    """
    check_data(suite, place.data_root)
    check_directory(suite, directory)
    with ProcessExecutor([place], _ignore_progress, preload(suite), server=False) as executor:
        preflight = run_preflight(suite, place, executor.call)
    store, final_trials = Store(directory), Snapshot(directory).final_trials()
    if not freeze:
        return preflight, declare(preflight.study, directory, final_trials)
    store.prepare()
    with Heartbeat(directory) as heartbeat, open_claims(store, heartbeat) as claims, claims.holding("plan"):
        running = names(heartbeat.other_drivers())
        history = declare(preflight.study, directory, Snapshot(directory).final_trials(), running, EXPIRY, freeze)
        write_history(directory, history)
    return preflight, history


def _ignore_progress(*_: object) -> None:
    """Progress of the calls in a preflight, which run no trials."""


def check_data(suite: Suite, data_root: str) -> None:
    """Check that all data of a suite are prepared.

    Raises:
        UsageError: some are not; the message has the commands that prepare them.
    """
    missing = []
    for config in configs_of(suite.data_tables):
        try:
            config.open(Path(data_root))
        except UsageError as error:
            missing.append(str(error))
    if missing:
        raise UsageError("\n".join(missing))


def preload(suite: Suite) -> list[str]:
    """The modules that the trials of a suite need."""
    known = (known_optimizers()[name] for name, plan in suite.optimizers.items() if not plan.factory)
    arenas = sorted({module for name in suite.arenas for module in _modules_of(suite.task(name))})
    return [*PRELOAD, *arenas, *(facts.factory.partition(":")[0] for facts in known)]


def _modules_of(task: str) -> list[str]:
    """The modules that an arena needs, except a user's own file, which each process loads itself."""
    return [ARENAS[task].factory.partition(":")[0]] if task in ARENAS else arena_libraries(task)


def admit(loop: TrialLoop, store: Store, claims: Claims, heartbeat: Heartbeat, allow_mixed: bool) -> str:
    """Declare the study in its directory and announce this driver: same plan, same environment, no conflict.

    Args:
        store: their records.
        allow_mixed: whether trials may run in another environment than the finished ones.

    Returns:
        A warning about a different environment; empty if there is none.

    Raises:
        UsageError: the directory has a conflicting plan or environment, see `declare` and `check_environment`; nothing
            was changed.
    """
    with claims.holding("plan", heartbeat.beat):
        others, final_trials = heartbeat.other_drivers(), Snapshot(store.directory).final_trials()
        history = declare(loop.study, store.directory, final_trials, names(others), EXPIRY)
        warning = "" if loop.complete else check_environment(loop.study, loop.records, others, allow_mixed)
        write_history(store.directory, history)
        heartbeat.announce(loop.study.environment)
    return warning


def check_environment(
    study: Study, records: Iterable[Record], others: Sequence[DriverStatus], allow_mixed: bool
) -> str:
    """Check that the environment here is that of the finished trials and of the other drivers' trials.

    Returns:
        A warning if it differs and `allow_mixed` permits that; empty if it is the same.

    Raises:
        UsageError: it differs, and that is not allowed.
    """
    environments = [record["environment"] for record in records if record["environment"]]
    differing = environment_differences([*environments, *(x.environment for x in others)], study.environment)
    if not differing:
        return ""
    finished = f"the finished ones{f' and those of {names(others)}' if others else ''}"
    if not allow_mixed:
        raise UsageError(
            f"the remaining trials would run in a different environment from {finished}:\n{differing}\n"
            "--allow-mixed runs them, and the report says so; or choose another --output-dir"
        )
    return (
        f"warning: the following trials run in a different environment from {finished}; the report will say so\n"
        f"{differing}"
    )

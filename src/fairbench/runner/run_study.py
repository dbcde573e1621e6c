"""Runs a study: preflight, admission, then every trial without a record."""

import os
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairbench.arenas.registry import ARENAS, load_arena
from fairbench.common.errors import UsageError
from fairbench.common.formatting import some
from fairbench.optimizers.registry import known_modules
from fairbench.runner.code_identity import arena_libraries
from fairbench.runner.coordination.claims import Claims, open_claims
from fairbench.runner.coordination.heartbeat import Contention, Heartbeat
from fairbench.runner.coordination.liveness import EXPIRY
from fairbench.runner.coordination.status import DriverStatus, damaged_statuses, names
from fairbench.runner.devices import RunOptions, places_of_trials
from fairbench.runner.executors.local import CALL_LIMIT, ProcessExecutor
from fairbench.runner.observers import Observer, Observers
from fairbench.runner.preflight import run_preflight
from fairbench.runner.trial_loop import TrialLoop
from fairbench.study.environments import environment_differences
from fairbench.study.history import History, changes, declare, promise, read_history, write_history
from fairbench.study.measured import Preflight, check_gpu_memory, time_limits
from fairbench.study.records import Store
from fairbench.study.target import Target
from fairbench.suites.schema import Suite
from fairbench.training.place import Place

if TYPE_CHECKING:
    from fairbench.runner.trial_loop import Executor

PRELOAD = ("fairbench.runner.trainings.own", "fairbench.runner.trainings.program")
"""The modules that processes of trials load, with all that they import."""

PRIVATE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
"""Variables with which Ray's own cluster of a study admits no other machine and, from Ray 2.52 on, no other user.

With the first one, also on Linux, this machine is 127.0.0.1, and the cluster listens there alone.
"""


def run_study(target: Target, options: RunOptions, observers: Sequence[Observer]) -> None:
    """Run every trial of a suite that has no record yet; the observers show its progress.

    The caller has checked that the data of the suite are prepared, see `check_prepared`.

    Raises:
        UsageError: the directory holds a different plan that is running, a damaged record, or records of a different
            environment; it cannot be written; or trials that share a GPU do not fit on it.
        KeyboardInterrupt, Preempted: the user or a signal stopped it; finished trials are kept.
    """
    suite = target.suite
    directory = target.directory
    options = replace(options, places=places_of_trials(suite, options.places, options.ray is not None))
    store = Store(directory)
    store.prepare()
    heartbeat = Heartbeat(directory)
    every = (*observers, heartbeat, Contention(heartbeat, store))
    observer = Observers(*every)
    with ExitStack() as running:
        for each in every:
            running.enter_context(each)
        claims = running.enter_context(open_claims(store, heartbeat, observer.say))
        executor = _executor(suite, options, store, observer)
        running.enter_context(executor)

        def call(*function_and_arguments: Any) -> Any:
            observer.beat()
            return executor.call(*function_and_arguments)

        preflight = run_preflight(suite, options.places[0], call, observer.say)
        check_gpu_memory(preflight, max(Counter(place.device for place in options.places).values()))
        limits = time_limits(preflight, options.trial_timeout or suite.trial_timeout)
        restart_notice = preflight.restart_notice()
        for message in damaged_statuses(directory):
            observer.say(message)
        loop = TrialLoop(preflight.study, store, observer, options.timing, options.fail_fast)
        observer.say(admit(loop, store, claims, heartbeat, options.allow_mixed))
        if not loop.complete:
            observer.say(restart_notice)
        loop.run(claims, executor, limits, preflight.resumes)
    store.clear()


def _executor(suite: Suite, options: RunOptions, store: Store, observer: Observer) -> "Executor":
    modules = preload(suite)
    every = suite.checkpoint_every if options.checkpoint_every is None else options.checkpoint_every
    kept = [replace(x, checkpoints=str(store.checkpoints), checkpoint_every=every) for x in options.places]
    options = replace(options, places=kept)
    call_limit = max(options.trial_timeout or suite.trial_timeout, CALL_LIMIT)
    if options.ray is None:
        return ProcessExecutor(options.places, observer.running, modules, call_limit)
    if options.ray == "local":
        os.environ |= PRIVATE | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}  # Ray reads them when it is imported
    from fairbench.runner.executors.ray.executor import RayExecutor

    return RayExecutor(options, observer, modules, call_limit)


def plan_study(
    target: Target, place: Place, freeze: bool, say: Callable[[str], None] = lambda text: None
) -> tuple[Preflight, History]:
    """Run the preflight of a suite and declare its plan, without any trial; `freeze` writes and locks the plan.

    The caller has checked that the data of the suite are prepared, see `check_prepared`.
    """
    suite = target.suite
    directory = target.directory
    with ProcessExecutor([place], preload=preload(suite)) as executor:
        preflight = run_preflight(suite, place, executor.call, say)
    store = Store(directory)
    if not freeze:
        return preflight, declare(preflight.study, directory, store.final_trials())
    store.prepare()
    with Heartbeat(directory) as heartbeat, open_claims(store, heartbeat, say) as claims, claims.holding("plan"):
        running = names(heartbeat.other_drivers())
        history = declare(preflight.study, directory, store.final_trials(), running, EXPIRY, freeze)
        write_history(directory, history)
    return preflight, history


def preload(suite: Suite) -> list[str]:
    """The modules that the trials of a suite need, except user-defined ones, which each process loads itself."""
    modules = known_modules(suite.optimizers)
    for task in map(suite.task, suite.arenas):
        modules |= {ARENAS[task].factory.partition(":")[0]} if task in ARENAS else arena_libraries(load_arena(task))
    return [*PRELOAD, *sorted(modules)]


def admit(loop: TrialLoop, store: Store, claims: Claims, heartbeat: Heartbeat, allow_mixed: bool) -> str:
    """Declare the study in its directory and announce this driver: same plan, same environment, no conflict.

    Returns what is different from the plan before, and from the environment of other trials; otherwise an empty text.
    """
    with claims.holding("plan", heartbeat.beat):
        others, final_trials = heartbeat.other_drivers(), store.final_trials()
        before = read_history(store.directory)
        history = declare(loop.study, store.directory, final_trials, names(others), EXPIRY)
        warning = "" if loop.complete else _environment_warning(loop, others, allow_mixed)
        write_history(store.directory, history)
        heartbeat.announce(loop.study.environment)
    differing = changes(promise(before.study), promise(loop.study)) if before.plans else []
    kept = "trials that this changes run again; their earlier records are kept"
    changed = f"the plan was changed: {some([str(x) for x in differing], '; ')}; {kept}" if differing else ""
    return "\n".join(filter(None, (changed, warning)))


def _environment_warning(loop: TrialLoop, others: Sequence[DriverStatus], allow_mixed: bool) -> str:
    """How the environment here differs from that of finished trials and of other drivers; empty if it does not."""
    environments = [
        *(x.environment for x in loop.records.successful() if x.environment),
        *(x.environment for x in others),
    ]
    if not (differing := environment_differences(environments, loop.study.environment)):
        return ""
    finished = f"the finished ones{f' and those of {names(others)}' if others else ''}"
    if not allow_mixed:
        raise UsageError(
            f"the remaining trials would run in a different environment from {finished}:\n{differing}\n"
            "--allow-mixed runs them, and the report says so; or choose another --output-dir"
        )
    warning = f"warning: the following trials run in a different environment from {finished}"
    return f"{warning}; the report will say so\n{differing}"

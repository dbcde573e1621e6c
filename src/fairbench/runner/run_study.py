"""Runs a study: preflight, admission, then every trial without a record."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from fairbench.arenas.registry import ARENAS, load_arena
from fairbench.common.errors import UsageError
from fairbench.common.formatting import some
from fairbench.optimizers.registry import known_modules
from fairbench.runner.code_identity import arena_libraries
from fairbench.runner.coordination.claims import Claims, open_claims
from fairbench.runner.coordination.heartbeat import Contention, Heartbeat
from fairbench.runner.coordination.liveness import EXPIRY
from fairbench.runner.coordination.status import DriverStatus, damaged_statuses, names
from fairbench.runner.devices import RunOptions, slots_of_trials
from fairbench.runner.executors.executor import CALL_LIMIT, Executor
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.executors.registry import make_executor
from fairbench.runner.observers import Observer, Observers
from fairbench.runner.preflight import run_preflight
from fairbench.runner.trial_loop import TrialLoop
from fairbench.study.environments import environment_differences
from fairbench.study.history import History, changes, declare, locked_settings, read_history, write_history
from fairbench.study.preflight_result import Preflight, check_gpu_memory, time_limits
from fairbench.study.records import Store
from fairbench.study.target import Target
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot

PRELOAD = ("fairbench.runner.trainings.builtin_loop", "fairbench.runner.trainings.program")
"""The modules that processes of trials load, with all that they import."""


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
    slots = slots_of_trials(suite, options.slots, elsewhere=options.ray is not None)
    options = replace(options, slots=slots)
    store = Store(directory)
    store.prepare()
    heartbeat = Heartbeat(directory)
    every = (*observers, heartbeat, Contention(heartbeat, store))
    observer = Observers(*every)
    with ExitStack() as running:
        for each in every:
            running.enter_context(each)
        claims = running.enter_context(open_claims(store, heartbeat, observer.say))
        executor = running.enter_context(_executor(suite, options, store, observer))

        def call(*function_and_arguments: Any) -> Any:
            observer.beat()  # a preflight may take longer than a heartbeat
            return executor.call(*function_and_arguments)

        preflight = run_preflight(suite, slots[0], call, observer.say)
        trials_on_device = Counter(slot.device for slot in slots)
        check_gpu_memory(preflight, max(trials_on_device.values()))
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


def _executor(suite: Suite, options: RunOptions, store: Store, observer: Observer) -> Executor:
    """The executor that the options name. Its slots write checkpoints into the store."""
    checkpoint_every = options.checkpoint_every
    if checkpoint_every is None:
        checkpoint_every = suite.checkpoint_every
    folder = str(store.checkpoints)
    slots = [replace(slot, checkpoints=folder, checkpoint_every=checkpoint_every) for slot in options.slots]
    call_limit = max(options.trial_timeout or suite.trial_timeout, CALL_LIMIT)
    return make_executor(options.executor, replace(options, slots=slots), observer, preload(suite), call_limit)


def plan_study(
    target: Target, slot: DeviceSlot, freeze: bool, say: Callable[[str], None] = lambda text: None
) -> tuple[Preflight, History]:
    """Run the preflight of a suite and declare its plan, without any trial.

    If `freeze` is True, the plan is written to the directory and locked; otherwise nothing is written.

    The caller has checked that the data of the suite are prepared, see `check_prepared`.
    """
    suite = target.suite
    directory = target.directory
    with ProcessExecutor([slot], preload=preload(suite)) as executor:
        preflight = run_preflight(suite, slot, executor.call, say)
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
    """The modules that the trials of a suite need. Each process loads the modules of the user itself."""
    modules = known_modules(suite.optimizers)
    for name in suite.arenas:
        modules |= _modules_of(suite.task(name))
    return [*PRELOAD, *sorted(modules)]


def _modules_of(task: str) -> set[str]:
    """The modules that the trials of a task need."""
    if task not in ARENAS:
        return arena_libraries(load_arena(task))  # of a user's arena only the libraries
    module, _, _ = ARENAS[task].factory.partition(":")
    return {module}


def admit(loop: TrialLoop, store: Store, claims: Claims, heartbeat: Heartbeat, allow_mixed: bool) -> str:
    """Declare the plan of the study in its directory, and announce this driver to the other drivers.

    Returns:
        Warnings: how the plan differs from the one before, and the environment from that of other trials. Empty without
        a difference.

    Raises:
        UsageError: other drivers run a different plan, the plan is frozen, or the environment differs without
            `allow_mixed`.
    """
    with claims.holding("plan", heartbeat.beat):
        others = heartbeat.other_drivers()
        final_trials = store.final_trials()
        before = read_history(store.directory)
        history = declare(loop.study, store.directory, final_trials, names(others), EXPIRY)
        warnings = [_plan_warning(before, loop)]
        if not loop.complete:
            warnings.append(_environment_warning(loop, others, allow_mixed))
        write_history(store.directory, history)
        heartbeat.announce(loop.study.environment)
    return "\n".join(warning for warning in warnings if warning)


def _plan_warning(before: History, loop: TrialLoop) -> str:
    """A warning about the changes of the plan before; empty without changes, or without a plan before."""
    if not before.plans:
        return ""
    differing = changes(locked_settings(before.study), locked_settings(loop.study))
    if not differing:
        return ""
    listed = some([str(change) for change in differing], "; ")
    return f"the plan was changed: {listed}; trials that this changes run again; their earlier records are kept"


def _environment_warning(loop: TrialLoop, others: Sequence[DriverStatus], allow_mixed: bool) -> str:
    """A warning if the environment here differs from that of finished trials or of other drivers; otherwise empty.

    Raises `UsageError` if it differs and `allow_mixed` is False.
    """
    differing = environment_differences(_environments(loop, others), loop.study.environment)
    if not differing:
        return ""
    finished = "the finished ones"
    if others:
        finished += f" and those of {names(others)}"
    if not allow_mixed:
        raise UsageError(
            f"the remaining trials would run in a different environment from {finished}:\n{differing}\n"
            "--allow-mixed runs them, and the report says so; or choose another --output-dir"
        )
    warning = f"warning: the following trials run in a different environment from {finished}"
    return f"{warning}; the report will say so\n{differing}"


def _environments(loop: TrialLoop, others: Sequence[DriverStatus]) -> Iterator[Any]:
    """The environments of the finished trials, then those of the other drivers."""
    for record in loop.records.successful():
        if record.environment:
            yield record.environment
    for status in others:
        if status.environment:
            yield status.environment

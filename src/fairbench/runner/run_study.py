"""Runs a study: preflight, admission, then every trial without a record."""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from fairbench.common.formatting import plural
from fairbench.runner.admission import admit
from fairbench.runner.adopted_noise import adopt_noise
from fairbench.runner.changed_code import changed_code
from fairbench.runner.coordination.claims import open_claims, remove_dead_claims
from fairbench.runner.coordination.heartbeat import Contention, Heartbeat
from fairbench.runner.coordination.liveness import EXPIRY
from fairbench.runner.coordination.status import damaged_statuses, names
from fairbench.runner.devices import RunOptions, options_of_study
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.executors.registry import executor_for
from fairbench.runner.observers import Observer, Observers
from fairbench.runner.preflight import preflight_of_run, run_preflight
from fairbench.runner.preload import preload
from fairbench.runner.revisions import checked_out
from fairbench.runner.trial_loop import TrialLoop
from fairbench.study.folder import REVISIONS
from fairbench.study.history import History, write_history
from fairbench.study.preflight_result import Preflight
from fairbench.study.records import Store
from fairbench.study.target import Target, target_in
from fairbench.training.device_slot import DeviceSlot


def run_study(target: Target, options: RunOptions, observers: Sequence[Observer]) -> None:
    """Run every trial of a suite that has no record yet; the observers show its progress.

    The caller has checked that the data of the suite are prepared, see `check_prepared`.

    Raises:
        UsageError: the directory holds a different plan that is running, a damaged record, or records of a different
            environment; it cannot be written; trials that share a GPU do not fit on it; or a program ignores its
            learning rate or its optimizer.
        KeyboardInterrupt, Preempted: the user or a signal stopped it; finished trials are kept.
    """
    suite = target.suite
    directory = target.directory
    options = options_of_study(suite, options)
    store = Store(directory)
    store.prepare()
    heartbeat = Heartbeat(directory)
    all_observers = (*observers, heartbeat, Contention(heartbeat, store))
    observer = Observers(*all_observers)
    with ExitStack() as running:
        for each in all_observers:
            running.enter_context(each)
        claims = running.enter_context(open_claims(store, heartbeat, observer.say))
        revisions = checked_out(suite, directory, directory / REVISIONS, target.history, observer.say)
        checkouts = running.enter_context(revisions)
        suite = checkouts.suite
        changed = changed_code(target.history, suite, directory)
        if changed:
            observer.say(changed)
        slots = [replace(slot, revisions=checkouts.folder) for slot in options.slots]
        options = replace(options, slots=slots)
        executor = running.enter_context(executor_for(options, store.checkpoints, preload(suite), observer))
        preflight = preflight_of_run(suite, slots, executor, observer)
        for message in damaged_statuses(directory):
            observer.say(message)
        loop = TrialLoop(preflight, options, store=store, claims=claims, executor=executor, observer=observer)
        observer.say(admit(loop, store, claims, heartbeat, options.allow_mixed))
        adopted = adopt_noise(preflight.study, store)  # the loop reads these records when it comes to their trials
        if adopted:
            observer.say(f"{plural(adopted, 'run')} of fairbench noise are part of this study")
        loop.run()
    store.clear()
    remove_dead_claims(store)


def plan_study(
    target: Target, slot: DeviceSlot, freeze: bool, say: Callable[[str], None] = lambda text: None
) -> tuple[Preflight, History]:
    """Run the preflight of a suite and declare its plan, without any trial.

    If `freeze` is True, the plan is written to the directory and locked; otherwise nothing is written.

    The caller has checked that the data of the suite are prepared, see `check_prepared`.
    """
    directory = target.directory
    with tempfile.TemporaryDirectory(prefix="fairbench-") as temporary:
        revisions = checked_out(target.suite, directory, Path(temporary) / REVISIONS, target.history, say)
        with revisions as checkouts, ProcessExecutor([slot], preload=preload(target.suite)) as executor:
            slot = replace(slot, revisions=checkouts.folder)
            preflight = run_preflight(checkouts.suite, slot, executor.call, say)
    store = Store(directory)
    if not freeze:
        return preflight, target.declare(preflight.study, store.final_trials())
    store.prepare()
    with Heartbeat(directory) as heartbeat, open_claims(store, heartbeat, say) as claims, claims.holding("plan"):
        running = names(heartbeat.other_drivers())
        history = target_in(directory, preflight.study.suite).declare(
            preflight.study,
            final_trials=store.final_trials(),
            running=running,
            expiry=EXPIRY,
            freeze=freeze,
        )
        write_history(directory, history)
    return preflight, history

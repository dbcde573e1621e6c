"""The preflight of a suite: resolves and measures its arenas and optimizers before any trial runs.

Each part runs in a separate process, so that no optimizer sees the state of an arena or of another optimizer.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from fairbench.common.coercion import build
from fairbench.common.errors import ProgramError, UsageError
from fairbench.common.formatting import merged, plural
from fairbench.optimizers.resolve import check_optimizers
from fairbench.optimizers.spec import BY_PROGRAM, HORIZON, ResolvedOptimizer
from fairbench.runner.executors.executor import Executor
from fairbench.runner.measurements import arenas_and_environment, optimizer_and_seconds
from fairbench.runner.observers import Observer
from fairbench.runner.program_revisions import program_revisions
from fairbench.runner.trainings.before_start import SEED_LOST, checked_programs, seed_message, without_seed
from fairbench.runner.trainings.order_of_checks import expected_time, order_of_checks
from fairbench.study.first_steps import Costs, FirstSteps, as_first
from fairbench.study.preflight_result import Preflight, check_gpu_memory
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot

VALIDATED = (
    "the program reports no test split: learning rates are selected on the validation split, and the verdict is about "
    "the same split"
)
"""The message on a program that reports one split."""
Call = Callable[..., Any]
"""Calls a module's function in a separate process; arguments are plain, the result is plain JSON."""
QUIET_SECONDS = 5.0
"""Seconds between messages about progress."""


def run_preflight(
    suite: Suite, slot: DeviceSlot, call: Call, say: Callable[[str], None] = lambda text: None
) -> Preflight:
    """Load the data, build every model, and take two steps with every optimizer in every arena.

    What is wrong in an optimizer's options is reported before anything is measured. `call` runs each part in a separate
    process. Arenas that differ only in the number of their steps and in their schedule are measured once. They are
    measured separately if the optimizer has options for one of them, or gets the number of steps as an argument.
    """
    programs = checked_programs(suite, slot)
    lost = []
    if suite.first_steps:
        lost = without_seed(programs)
    if lost:
        say(seed_message(lost, programs))
    if any(plan.factory != BY_PROGRAM for plan in suite.optimizers.values()):
        call(check_optimizers, suite.optimizers, suite.sweep.extra)
    if suite.first_steps or not suite.trains_programs:
        say(f"measuring {', '.join(suite.arenas)} with {plural(len(suite.optimizers), suite.noun)}")
    began = time.monotonic()
    measurements = call(arenas_and_environment, suite, slot)
    arenas = {name: ResolvedArena(**measured["resolved"]) for name, measured in measurements["arenas"].items()}
    probed = {name: measured["probed"] for name, measured in measurements["arenas"].items()}
    evaluation_seconds = {name: measured["evaluation_seconds"] for name, measured in measurements["arenas"].items()}
    study = ResolvedSuite(
        suite=suite, device=slot.kind, arenas=arenas, optimizers={}, environment=measurements["environment"]
    )
    _say_about_arenas(study, probed, say)
    optimizers, costs = _measured_optimizers(study, slot, probed, call=call, say=say, last_message=began)
    study = replace(study, optimizers=optimizers)
    is_seed_said = bool(programs) and programs[0] in lost  # the first steps tell it only of the first program
    _say_about_optimizers(study, costs, is_seed_said=is_seed_said, say=say)
    _check_extra(suite, optimizers.values())
    if any(cost.lacks_test for cost_of_arena in costs.values() for cost in cost_of_arena.values()):
        study = replace(study, suite=replace(suite, breaks=[*suite.breaks, "split"]))
        say(VALIDATED)
    study = replace(study, program_revisions=program_revisions(study))
    return Preflight(study, costs, evaluation_seconds)


def _measured_optimizers(
    study: ResolvedSuite,
    slot: DeviceSlot,
    probed: Mapping[str, int],
    *,
    call: Call,
    say: Callable[[str], None],
    last_message: float,
) -> tuple[dict[str, ResolvedOptimizer], dict[str, dict[str, FirstSteps]]]:
    """Every optimizer of a study whose arenas are measured, and the costs of its first steps.

    `last_message` is the time of the last message, by the monotonic clock: one on progress follows QUIET_SECONDS later.
    """
    suite = study.suite
    optimizers: dict[str, ResolvedOptimizer] = {}
    costs: dict[str, dict[str, FirstSteps]] = {}
    measured_study = study
    order = order_of_checks(suite)
    seconds = 0.0  # of the last check
    for number, name in enumerate(order, 1):
        began = time.monotonic()
        if began - last_message > QUIET_SECONDS:
            say(f"measuring {name}, {suite.noun} {number} of {len(order)}{expected_time(suite, name, seconds)}")
            last_message = began
        measured = call(optimizer_and_seconds, measured_study, name, suite.optimizers[name], slot, probed)
        optimizers[name] = build(ResolvedOptimizer, measured["optimizer"], ("optimizers", name))
        costs[name] = {arena: FirstSteps(**cost) for arena, cost in measured["arenas"].items()}
        steps = min((cost.steps for cost in costs[name].values()), default=0)
        if steps > suite.first_steps:  # the next ones begin with those, since fewer have shown no metric
            measured_study = replace(study, suite=replace(suite, first_steps=steps))
        seconds = time.monotonic() - began
    in_order = {name: optimizers[name] for name in suite.optimizers}
    return in_order, _with_steps(costs, suite)


def _with_steps(costs: Costs, suite: Suite) -> dict[str, dict[str, FirstSteps]]:
    """The costs in the order of a suite; those of a program have the time of a step, see `as_first`."""
    measured, *others = suite.optimizers
    completed = {measured: dict(costs[measured])}
    for name in others:
        completed[name] = dict(costs[name])
        for arena, cost in costs[name].items():
            first = costs[measured].get(arena)
            if cost.steps and first:
                completed[name][arena] = as_first(cost, first)
    return completed


def preflight_of_run(suite: Suite, slots: Sequence[DeviceSlot], executor: Executor, observer: Observer) -> Preflight:
    """The preflight of a suite whose trials will run at some slots. The observer gets the duration of a step.

    Raises:
        UsageError: the trials that share a GPU do not fit on it.
    """

    def call(*function_and_arguments: Any) -> Any:
        observer.beat()  # a preflight may take longer than a heartbeat
        return executor.call(*function_and_arguments)

    preflight = run_preflight(suite, slots[0], call, observer.say)
    trials_on_device = Counter(slot.device for slot in slots)
    check_gpu_memory(preflight, max(trials_on_device.values()))
    if not preflight.unmeasured:
        starts = preflight.start_seconds.values()
        observer.measured(preflight.step_seconds, start=fmean(starts) if starts else 0.0)
    return preflight


def _say_about_arenas(study: ResolvedSuite, probed: Mapping[str, int], say: Callable[[str], None]) -> None:
    """Tell the user which examples are in two splits, and which arenas are measured with only a part of a batch."""
    shared = merged((name, arena.shared) for name, arena in study.arenas.items() if arena.shared)
    if shared:
        say(shared)
    parts = []  # arenas that are measured with a part of a batch
    for name, plan in study.suite.arenas.items():
        if probed[name] < plan.batch_size:
            parts.append(f"{name} {probed[name]} of {plan.batch_size}")
    if parts:
        say(f"slow here: a step is measured with fewer examples and scaled to the batch: {', '.join(parts)}")


def _say_about_optimizers(
    study: ResolvedSuite, costs: Costs, *, is_seed_said: bool, say: Callable[[str], None]
) -> None:
    """Tell the user who gets the number of steps, what was noticed in the measured steps, and which arms are equal.

    If `is_seed_said` is True, the user knows that the seed of the first program is lost. Last comes a notice on
    different weight decays.
    """
    optimizers = study.optimizers
    for name, optimizer in optimizers.items():
        if optimizer.horizon not in ("", HORIZON):
            say(f"{name} gets the number of steps as {optimizer.horizon}; --set {name}.{optimizer.horizon}=N sets it")
    notices = [notice for cost_of_arena in costs.values() for cost in cost_of_arena.values() for notice in cost.notices]
    for notice in dict.fromkeys(notices):
        if not (is_seed_said and notice.startswith(SEED_LOST)):
            say(notice)
    for arena in study.arenas:
        same_arms = _same_arms(optimizers, arena, costs)
        if same_arms:
            say(same_arms)
    unequal_decay = _unequal_decay(study.suite, optimizers)
    if unequal_decay:
        say(unequal_decay)


def _unequal_decay(suite: Suite, optimizers: Mapping[str, ResolvedOptimizer]) -> str:
    """A message on a weight decay that the suite does not set, and that is not that of the others; empty if none is."""
    if "weight_decay" in suite.sweep.extra:
        return ""
    decays = {}
    for name, optimizer in optimizers.items():
        decay = optimizer.options.get("weight_decay")
        if decay is not None:
            decays[name] = float(decay)
    unset = [name for name in decays if "weight_decay" not in suite.optimizers[name].options]
    first = next(iter(decays.values()), 0.0)
    differing = [name for name in unset if decays[name] != first]
    if not differing:
        return ""
    shown = ", ".join(f"{decay:g} ({name})" for name, decay in decays.items())
    remedy = " ".join(f"--set {name}.weight_decay={first:g}" for name in differing)
    return f"the weight decay differs, which the audit will warn of: {shown}; {remedy} makes it equal"


def _check_extra(suite: Suite, optimizers: Iterable[ResolvedOptimizer]) -> None:
    """Raise `UsageError` for a searched hyperparameter that no tuned optimizer has."""
    tuned = [optimizer for optimizer in optimizers if optimizer.lr is None]
    for key in suite.sweep.extra:
        if all(key in optimizer.lacks for optimizer in tuned):
            raise UsageError(
                f"sweep.extra.{key}: no optimizer has an argument of that name; correct it or leave it out"
            )


def _same_arms(optimizers: Mapping[str, ResolvedOptimizer], arena: str, costs: Costs) -> str:
    """A notice on arms that are the same to their program; empty if all differ.

    The user may compare a program with itself, to see what chance does.

    Raises:
        UsageError: an optimizer of torch or of the user does not reach the program.
    """
    seen: dict[str, Any] = {}
    notices = []
    for name, cost_of_arena in costs.items():
        cost = cost_of_arena.get(arena)
        if cost is None or cost.identity is None:
            continue
        identity = cost.identity
        for other, other_identity in seen.items():
            if identity == other_identity:
                same = f"{other} and {name} are the same to the program of arena {arena}"
                made_here = [each for each in (other, name) if optimizers[each].factory not in ("", BY_PROGRAM)]
                if made_here:
                    remedy = "put {optimizer} into its command, or let it take trial.optimizer of fairbench.trial"
                    raise ProgramError(f"{same}, whose command names no optimizer and none of its options; {remedy}")
                notices.append(f"{same}, so that only chance can tell them apart")
                break
        seen[name] = identity
    return "; ".join(notices)

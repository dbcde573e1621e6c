"""The budget and the treatment of each arm: search, steps, clipping, schedule, decay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.common.formatting import NONE, exact, merged, plural, rate
from fairbench.common.grouping import grouped
from fairbench.optimizers.treatments import PRESETS, TREATMENTS, decay_kind, schedule
from fairbench.study.resolved_suite import ResolvedSuite


@dataclass(frozen=True)
class Budget:
    """The budget and treatment of an arm, in words; only trials with a record count.

    Attributes:
        options: those that the suite sets.
        final_trials, final_steps: of the reported length, at every setting.
        clipping: of the gradients' global norm, by the training loop or by the optimizer.
        adaptive_clipping: of the gradients, by the weights' norms.
        decay: weight decay, and whether it is coupled to the gradient.
    """

    arena: str
    optimizer: str
    factory: str
    options: str
    search: str
    settings: int
    sweep_trials: int
    sweep_steps: int
    final_trials: int
    final_steps: int
    clipping: str
    centralization: str
    adaptive_clipping: str
    groups: str
    schedule: str
    decay: str
    tuned: bool


def budgets(analyses: Analyses) -> list[Budget]:
    """The budget and the treatment of every arm that has a learning rate, in the order of the suite."""
    results = analyses.results
    with_rate = [arm for arm in results.arms if results.study.optimizers[arm.optimizer].has_rate]
    return [_budget(results, arm) for arm in with_rate]


def _budget(results: Results, arm: ArmResults) -> Budget:
    """The budget and the treatment of an arm."""
    suite = results.study.suite
    resolved = results.study.optimizers[arm.optimizer]
    options = {**resolved.options, **resolved.arenas.get(arm.arena, {})}
    options_with_searched = dict(options)
    if arm.selected:
        options_with_searched.update(arm.selected.extra)
    # a preset sets options itself, so an option that the suite does not set may be on
    default = "by the preset" if resolved.factory in PRESETS else "none"
    clip_norm = suite.clip_norm(arm.optimizer)
    name_of_schedule, min_lr = suite.schedule(arm.arena, arm.optimizer)
    sweep = _recorded(arm.sweep)
    tried = {run.setting for run in sweep}
    full_length = _recorded([*arm.others, *arm.final])
    return Budget(
        arena=arm.arena,
        optimizer=arm.optimizer,
        factory=resolved.factory,
        options=_chosen_options(results, arm),
        search=_search(results, arm),
        settings=len(tried),
        sweep_trials=len(sweep),
        sweep_steps=_steps(sweep),
        final_trials=len(full_length),
        final_steps=_steps(full_length),
        clipping=_clipping(clip_norm, options),
        centralization=_amount(options, "gradient centralization", default),
        adaptive_clipping=_amount(options, "adaptive gradient clipping", default),
        groups=resolved.groups or "one for all",
        schedule=schedule(resolved.needs, name_of_schedule, min_lr),
        decay=_decay(resolved.factory, options_with_searched, default),
        tuned=arm.tuned,
    )


def _chosen_options(results: Results, arm: ArmResults) -> str:
    """The options that the suite sets for an arm, in words."""
    plan = results.study.suite.optimizers[arm.optimizer]
    options = {**plan.options, **plan.arenas.get(arm.arena, {})}
    return ", ".join(f"{key} = {value}" for key, value in options.items()) or "nothing"


def _clipping(norm: float, options: Mapping[str, Any]) -> str:
    """The clipping of the gradients' global norm in words: by the training loop, by the optimizer, or by both."""
    words = []
    if norm > 0:
        words.append(f"norm {exact(norm)}")
    by_optimizer = _amount(options, "gradient clipping of its own", default="")
    if by_optimizer:
        words.append(f"its own {by_optimizer}")
    return ", ".join(words) or "none"


def _search(results: Results, arm: ArmResults) -> str:
    """The search for the learning rate of an arm, in words."""
    if not arm.tuned:
        lr = arm.selected.lr if arm.selected else None
        return f"untuned, at {rate(lr)}"
    other_arena = results.study.suite.arenas[arm.arena].tuning_arena
    if other_arena:
        return f"in {other_arena}"
    lowest = min(arm.rates, default=None)
    highest = max(arm.rates, default=None)
    words = f"{rate(lowest)} to {rate(highest)}"
    lacks = results.study.optimizers[arm.optimizer].lacks
    if lacks:
        words += f", without {', '.join(lacks)}"
    return words


def search_in_words(study: ResolvedSuite) -> str:
    """The search that every optimizer of a study gets, in words."""
    sweep = study.suite.sweep
    scales = {study.optimizers[name].lr_scale for name in study.suite.optimizers if study.tuned(name)}
    words = f"{sweep.points} rates from {rate(sweep.lr_min)} to {rate(sweep.lr_max)}"
    if not scales <= {1.0}:  # an optimizer has a factor of its own
        words += ", times the optimizer's lr_scale"
    if sweep.budget > sweep.points:
        words += f", then rates beyond the end nearer to the best until each search has {sweep.budget}"
    for name, values in sweep.extra.items():
        words += f", each with {name} {', '.join(map(str, values))}"
    return f"{words}; {finals_in_words(study)}"


def finals_in_words(study: ResolvedSuite) -> str:
    """The selection of the setting of the final trials, in words."""
    final = study.suite.final
    if final.settings == 1:
        return "the best of these short trials is reported"
    neighbors = f"its {final.settings // 2} neighbors on each side"
    if final.settings == 3:
        neighbors = "its neighbors"
    first_seeds = plural(final.halve_after, "final seed")
    return (
        f"the best and {neighbors}, and more while the best lies at the edge, are trained with the reported length; "
        f"after {first_seeds} the best two continue, and the one with the best mean over all seeds is reported"
    )


def equality(arms: Sequence[Budget]) -> str:
    """One or two sentences that tell whether the searches of each arena had the same budget."""
    unequal = []
    for arena, arms_of_arena in grouped((arm.arena, arm) for arm in arms).items():
        tuned = [arm for arm in arms_of_arena if arm.tuned]
        if len({arm.settings for arm in tuned}) > 1:
            counts = ", ".join(f"{arm.optimizer} {arm.settings}" for arm in tuned)
            unequal.append((arena, counts))
    text = "The budget was equal: in each arena every search had the same number of settings."
    if unequal:
        text = f"The budget of the searches was not equal, in settings: {merged(unequal)}."
    untuned = dict.fromkeys(arm.optimizer for arm in arms if not arm.tuned)
    if untuned:
        text += f" Untuned, without any search: {', '.join(untuned)}."
    return text


def _recorded(runs: Sequence[Run]) -> list[Run]:
    """The trials that have a record."""
    return [run for run in runs if run.record is not None]


def _steps(runs: Sequence[Run]) -> int:
    """The number of training steps of some trials together."""
    return sum(run.result.steps for run in runs if run.result)


def _amount(options: Mapping[str, Any], treatment: str, default: str) -> str:
    """The amount of a treatment in words, from the first of its options that is on.

    It is "none" if the options are off, and the default if none of them is set.
    """
    values = [options.get(name) for name, words in TREATMENTS.items() if words == treatment]
    given = [value for value in values if value is not None]
    if not given:
        return default
    for value in given:
        if value:
            return "on" if value is True else str(value)
    return "none"


def _decay(factory: str, options: Mapping[str, Any], default: str) -> str:
    """The weight decay and its kind, in words. Without the option, the default stands for a preset's decay."""
    value = options.get("weight_decay")
    if value is None:
        return NONE if default == "none" else default
    if not value:
        return "0"
    kind = decay_kind(factory, options)
    if kind in ("coupled", "decoupled"):
        return f"{exact(value)}, {kind}"
    return exact(value)

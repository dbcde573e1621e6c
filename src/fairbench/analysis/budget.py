"""The budget and the treatment of each arm: search, steps, clipping, schedule, decay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.common.formatting import NONE, exact, merged, plural, rate
from fairbench.optimizers.treatments import PRESETS, TREATMENTS, decay_kind, schedule
from fairbench.study.plan import ResolvedSuite


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
    """The budget and the treatment of every arm, in the order of the suite."""
    return [_budget(analyses.results, arm) for arm in analyses.results.arms]


def _budget(results: Results, arm: ArmResults) -> Budget:
    resolved, plan = results.study.optimizers[arm.optimizer], results.study.suite.optimizers[arm.optimizer]
    options = {**resolved.options, **resolved.arenas.get(arm.arena, {})}
    chosen = {**plan.options, **plan.arenas.get(arm.arena, {})}
    default = "by the preset" if resolved.factory in PRESETS else "none"
    norm = results.study.suite.clip_norm(arm.optimizer)
    by_loop = [f"norm {exact(norm)}"] if norm > 0 else []
    extra = dict(arm.selected.extra) if arm.selected else {}
    by_optimizer = _amount(options, "gradient clipping of its own", "")
    return Budget(
        arm.arena,
        arm.optimizer,
        resolved.factory,
        ", ".join(f"{key} = {value}" for key, value in chosen.items()) or "nothing",
        _search(results, arm),
        len({run.setting for run in arm.sweep if run.record is not None}),
        *_count(arm.sweep),
        *_count([*arm.others, *arm.final]),
        clipping=", ".join([*by_loop, *([f"its own {by_optimizer}"] if by_optimizer else [])]) or "none",
        centralization=_amount(options, "gradient centralization", default),
        adaptive_clipping=_amount(options, "adaptive gradient clipping", default),
        groups=resolved.groups or "one for all",
        schedule=schedule(resolved.needs, *results.study.suite.schedule(arm.arena, arm.optimizer)),
        decay=_decay(resolved.factory, {**options, **extra}, default),
        tuned=arm.tuned,
    )


def _search(results: Results, arm: ArmResults) -> str:
    if not arm.tuned:
        return f"untuned, at {rate(arm.selected.lr if arm.selected else None)}"
    if tuning_arena := results.study.suite.arenas[arm.arena].tuning_arena:
        return f"in {tuning_arena}"
    lacks = results.study.optimizers[arm.optimizer].lacks
    without = f", without {', '.join(lacks)}" if lacks else ""
    return f"{rate(min(arm.rates, default=None))} to {rate(max(arm.rates, default=None))}{without}"


def search_in_words(study: ResolvedSuite) -> str:
    """The search of every optimizer, in words."""
    sweep = study.suite.sweep
    scales = {study.optimizers[name].lr_scale for name in study.suite.optimizers if study.tuned(name)}
    scaled = "" if scales <= {1.0} else ", times the optimizer's lr_scale"
    ends = f"from {rate(sweep.lr_min)} to {rate(sweep.lr_max)}{scaled}"
    values = [f"{name} {', '.join(map(str, x))}" for name, x in sweep.extra.items()]
    beyond = "rates beyond the end nearer to the best"
    more = f", then {beyond} until each search has {sweep.budget}" if sweep.budget > sweep.points else ""
    words = f"{sweep.points} rates {ends}{more}{''.join(f', each with {x}' for x in values)}"
    return f"{words}; {finals_in_words(study)}"


def finals_in_words(study: ResolvedSuite) -> str:
    """How the setting of the final trials is selected, in words."""
    final = study.suite.final
    if final.settings == 1:
        return "the best of these short trials is reported"
    values = "its neighbors" if final.settings == 3 else f"its {final.settings // 2} neighbors on each side"
    first = plural(final.halve_after, "final seed")
    return (
        f"the best and {values}, and more while the best lies at the edge, are trained with the reported length; "
        f"after {first} the best two continue, and the one with the best mean over all seeds is reported"
    )


def equality(arms: Sequence[Budget]) -> str:
    """Whether the searches of an arena had the same budget, in one or two sentences."""
    unequal = []
    for arena in dict.fromkeys(x.arena for x in arms):
        tried = {x.optimizer: x.settings for x in arms if x.arena == arena and x.tuned}
        if len(set(tried.values())) > 1:
            unequal.append((arena, ", ".join(f"{name} {n}" for name, n in tried.items())))
    untuned = list(dict.fromkeys(x.optimizer for x in arms if not x.tuned))
    text = f"The budget of the searches was not equal, in settings: {merged(unequal)}." if unequal else ""
    text = text or "The budget was equal: in each arena every search had the same number of settings."
    return text + (f" Untuned, without any search: {', '.join(untuned)}." if untuned else "")


def _count(runs: Sequence[Run]) -> tuple[int, int]:
    """Trials with a record, and their steps."""
    done = [run for run in runs if run.record is not None]
    return len(done), sum(run.result.steps for run in done if run.result)


def _amount(options: Mapping[str, Any], treatment: str, default: str) -> str:
    """The first option for a treatment that is on, or the default if none of them is set."""
    values = [options.get(name) for name, words in TREATMENTS.items() if words == treatment]
    chosen = next(filter(None, values), None)
    if chosen is None:
        return default if values.count(None) == len(values) else "none"
    return "on" if chosen is True else str(chosen)


def _decay(factory: str, options: Mapping[str, Any], default: str) -> str:
    value = options.get("weight_decay")
    if value is None:
        return NONE if default == "none" else default
    kind = decay_kind(factory, options)
    known = f", {kind}" if kind in ("coupled", "decoupled") else ""
    return f"{exact(value)}{known}" if value else "0"

"""Checks of the treatment of each optimizer, and of whether it acted."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from statistics import fmean
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.mechanism import mechanisms
from fairbench.analysis.results import Results
from fairbench.common.checks import Severity, check
from fairbench.common.formatting import merged, percent, some
from fairbench.common.grouping import grouped
from fairbench.optimizers.registry import facts_of
from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.optimizers.treatments import PRESETS, TREATMENTS, decay_kind, schedule

CLIPPED_ALMOST_ALWAYS = 0.95
"""Clipping acts almost always if at least this share of the steps is clipped."""
NAMED_OTHERWISE = ("factory", "options", "arenas", "needs", "lr_scale", "lr", "min_lr", "variant")
"""Fields of an `OptimizerPlan` that are not compared as they are.

Some belong to one optimizer. `_treatments` names the others in another form, such as `min_lr`, a part of the schedule.
"""


@check(
    "unequal treatment",
    "warn",
    "Give it to all (`--set NAME.OPTION=VALUE`), or add an arm that has all of it but the mechanism.",
)
def unequal_treatment(case: Analyses) -> Iterator[tuple[str, str]]:
    """Optimizers differ in a treatment that any could have: clipping, schedule, gradients per step, learning rates."""
    study = case.results.study
    for arena in study.suite.compared_arenas:
        values_of_treatment: dict[str, dict[str, str]] = {}
        for name in study.suite.optimizers:
            for treatment, value in _treatments(case.results, arena, name).items():
                values_of_treatment.setdefault(treatment, {})[name] = value
        for treatment, value_of_optimizer in values_of_treatment.items():
            if len(set(value_of_optimizer.values())) > 1:
                yield arena, f"{treatment} {_by_value(value_of_optimizer)}"


def _treatments(results: Results, arena: str, name: str) -> dict[str, str]:
    """The treatments that any optimizer could have, with the value of each for one optimizer in an arena, in words.

    Two are left out where they do not count: a weight decay that is searched, and `lr_scale` without a search.
    """
    study = results.study
    plan = study.suite.optimizers[name]
    resolved = study.optimizers[name]
    options = {**resolved.options, **resolved.arenas.get(arena, {})}
    treatments = {}
    for field in fields(plan):
        if field.name not in NAMED_OTHERWISE:
            treatments[field.name] = _word(getattr(plan, field.name))
    treatments["groups"] = _groups_in_words(resolved)
    treatments["schedule"] = schedule(resolved.needs, *study.suite.schedule(arena, name))
    treatments["clip_norm"] = _word(study.suite.clip_norm(name))
    treatments.update(_techniques(options))
    treatments["preset"] = "off"
    if resolved.factory in PRESETS:
        treatments["preset"] = resolved.factory
    treatments["options for this arena:"] = " + ".join(plan.arenas.get(arena, {})) or "none"
    if options.get("weight_decay") is not None and "weight_decay" not in study.suite.sweep.extra:
        treatments["weight decay"] = _word(options["weight_decay"])
    if study.searched(name):
        treatments["lr_scale"] = _scale_in_words(resolved)
    gradients = [run.result.gradients_per_step for run in results.arm(arena, name).trials if run.result]
    if gradients:
        treatments["gradients per step"] = f"{fmean(gradients):.3g}"
    return treatments


def _techniques(options: Mapping[str, Any]) -> dict[str, str]:
    """The value of each general technique that an optimizer's options may turn on, by the name of the technique."""
    # several options may turn on one technique, so all are off before any is on
    techniques = dict.fromkeys(TREATMENTS.values(), "off")
    for option, technique in TREATMENTS.items():
        if options.get(option):
            techniques[technique] = _word(options[option])
    return techniques


def _groups_in_words(resolved: ResolvedOptimizer) -> str:
    """The parameter groups of an optimizer in words; "default" if they are the usual ones of its factory."""
    facts = facts_of(resolved.factory)
    usual = facts.groups if facts else ""
    if resolved.groups == usual:
        return "default"
    return _word(resolved.groups)


def _scale_in_words(resolved: ResolvedOptimizer) -> str:
    """The factor of an optimizer's rates in words; "default" if it is the usual one of its factory."""
    facts = facts_of(resolved.factory)
    usual = facts.lr_scale if facts else 1.0
    if resolved.lr_scale == usual:
        return "default"
    return f"{resolved.lr_scale:g} instead of {usual:g}"


def _word(value: Any) -> str:
    """The value of a treatment in a word; "off" for none."""
    if value is True:
        return "on"
    if not value:
        return "off"
    if isinstance(value, float | int):
        return f"{value:g}"
    return str(value)


def _by_value(values: Mapping[str, str]) -> str:
    """The optimizers with each value: "0.01 (AdamW, PsiLogic), 0.1 (Lion)"."""
    names = grouped((value, name) for name, value in values.items())
    return ", ".join(f"{value} ({some(optimizers)})" for value, optimizers in names.items())


@check("coupled decay", "warn", "Search the decay for each optimizer (`sweep.extra`), or leave it out for all.")
def coupled_decay(case: Analyses) -> Iterator[tuple[str, str]]:
    """Coupled and decoupled weight decay have the same number, which has a different effect in each."""
    study = case.results.study
    if "weight_decay" in study.suite.sweep.extra:
        return  # each optimizer has a decay of its own
    for arena in study.suite.compared_arenas:
        names_by_decay: dict[float, dict[str, list[str]]] = {}
        for name, resolved in study.optimizers.items():
            options = {**resolved.options, **resolved.arenas.get(arena, {})}
            decay = options.get("weight_decay")
            if decay:
                kind = decay_kind(resolved.factory, options)
                names_by_decay.setdefault(decay, {}).setdefault(kind, []).append(name)
        for decay, names in names_by_decay.items():
            if "coupled" in names and "decoupled" in names:
                coupled = ", ".join(names["coupled"])
                decoupled = ", ".join(names["decoupled"])
                yield arena, f"{decay:g} is coupled in {coupled} and decoupled in {decoupled}"


@check("inactive mechanism", "warn", "Do not ascribe any difference to it; see its warm-up, thresholds and signal.")
def inactive_mechanism(case: Analyses) -> Iterator[tuple[str, str]]:
    """The mechanism of an optimizer never acted in the final trials of an arena."""
    for mechanism in case.of(mechanisms):
        if mechanism.acted == 0:
            yield mechanism.arena, f"{mechanism.optimizer} {mechanism.state}"


@check("unused parts", "warn", "If its authors' loop calls more than step(), declare it in `needs`, and run it again.")
def unused_parts(case: Analyses) -> tuple[Severity, str]:
    """State of an optimizer never changed in final trials (warn), or a public method was never called (note)."""
    unused = []
    severity: Severity = "pass"
    for arm in case.results.arms:
        for run in arm.final:
            for words in run.details.unused:
                unused.append((arm.arena, f"{arm.optimizer} {words}"))
                if words.startswith("state"):  # graver than a method that was never called
                    severity = "warn"
                elif severity == "pass":
                    severity = "note"
    return severity, merged(dict.fromkeys(unused))


@check("mechanism not finite", "note", "Return 0 for what does not exist yet; the trials themselves are sound.")
def not_finite(case: Analyses) -> Iterator[tuple[str, str]]:
    """A quantity of a mechanism was not finite when it was read: that reading counts as no increase."""
    for arm in case.results.arms:
        lost = Counter[str]()
        for run in arm.final:
            if run.mechanism:
                lost.update(run.mechanism.not_finite)
        for quantity, readings in lost.items():
            yield arm.arena, f"{arm.optimizer} {quantity} in {readings} readings"


@check(
    "clipped almost always",
    "warn",
    "Raise the limit for all (`--set training.clip_norm=10`), or turn it off (`--set training.clip_norm=0`).",
)
def clipped(case: Analyses) -> Iterator[tuple[str, str]]:
    """Gradient clipping acted in at least 95% of the steps of an arm: nearly all its gradients have the same norm."""
    for arm in case.results.arms:
        rates = [run.result.clip_rate for run in arm.final if run.result]
        if not rates:
            continue
        share = fmean(rates)
        if share >= CLIPPED_ALMOST_ALWAYS:
            norm = case.suite.clip_norm(arm.optimizer)
            yield arm.arena, f"{arm.optimizer} in {percent(share)} of the steps, at {norm:g}"

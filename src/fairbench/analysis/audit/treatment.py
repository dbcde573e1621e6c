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
from fairbench.optimizers.treatments import PRESETS, TREATMENTS, decay_kind, schedule

CLIPPED_ALWAYS = 0.95
"""Share of clipped steps from which clipping is the rule."""
SPECIFIC = ("factory", "options", "arenas", "needs", "lr_scale", "lr", "min_lr")
"""Fields of an `OptimizerPlan` that are specific to an optimizer, or are named with another one, as `min_lr` with the
schedule; the remaining ones could be given to any."""


@check("unequal treatment", "warn", "Give it to all, or add an arm that has all of it but the mechanism.")
def unequal_treatment(case: Analyses) -> Iterator[tuple[str, str]]:
    """Optimizers differ in a treatment that any could have, such as clipping, schedule, gradients per step or rates."""
    study = case.results.study
    for arena in study.suite.compared_arenas:
        given = {name: _treatments(case.results, arena, name) for name in study.suite.optimizers}
        for treatment in dict.fromkeys(x for treatments in given.values() for x in treatments):
            values = {name: treatments[treatment] for name, treatments in given.items() if treatment in treatments}
            if len(set(values.values())) > 1:
                yield arena, f"{treatment} {_by_value(values)}"


def _treatments(results: Results, arena: str, name: str) -> dict[str, str]:
    """The treatments of an optimizer in an arena that any optimizer could have, with their values."""
    study = results.study
    plan, resolved = study.suite.optimizers[name], study.optimizers[name]
    options = {**resolved.options, **resolved.arenas.get(arena, {})}
    treatments = {field.name: _word(getattr(plan, field.name)) for field in fields(plan) if field.name not in SPECIFIC}
    treatments["groups"] = resolved.groups or "off"
    treatments["schedule"] = schedule(resolved.needs, *study.suite.schedule(arena, name))
    treatments["clip_norm"] = _word(study.suite.clip_norm(name))
    treatments |= dict.fromkeys(TREATMENTS.values(), "off")
    treatments |= {words: _word(options[option]) for option, words in TREATMENTS.items() if options.get(option)}
    treatments["preset"] = resolved.factory if resolved.factory in PRESETS else "off"
    treatments["options for this arena:"] = " + ".join(plan.arenas.get(arena, {})) or "none"
    if options.get("weight_decay") is not None and "weight_decay" not in study.suite.sweep.extra:
        treatments["weight decay"] = _word(options["weight_decay"])
    if study.tuned(name):
        facts, scale = facts_of(resolved.factory), resolved.lr_scale
        default = facts.lr_scale if facts else 1.0
        treatments["lr_scale"] = "default" if scale == default else f"{scale:g} instead of {default:g}"
    if gradients := [run.result.gradients_per_step for run in results.arm(arena, name).trials if run.result]:
        treatments["gradients per step"] = f"{fmean(gradients):.3g}"
    return treatments


def _word(value: Any) -> str:
    return "on" if value is True else f"{value:g}" if isinstance(value, float | int) and value else str(value or "off")


def _by_value(values: Mapping[str, str]) -> str:
    """The optimizers with each value: "0.01 (AdamW, PsiLogic), 0.1 (Lion)"."""
    names = grouped((value, name) for name, value in values.items())
    return ", ".join(f"{value} ({some(of_value)})" for value, of_value in names.items())


@check("coupled decay", "warn", "Search the decay for each optimizer (`sweep.extra`), or leave it out for all.")
def coupled_decay(case: Analyses) -> Iterator[tuple[str, str]]:
    """Coupled and decoupled weight decay have the same number, which has a different effect in each."""
    study = case.results.study
    if "weight_decay" in study.suite.sweep.extra:
        return
    for arena in study.suite.compared_arenas:
        kinds = []
        for name, resolved in study.optimizers.items():
            options = {**resolved.options, **resolved.arenas.get(arena, {})}
            if decay := options.get("weight_decay"):
                kinds.append((decay, (decay_kind(resolved.factory, options), name)))
        for number, of_number in grouped(kinds).items():
            names = grouped(of_number)
            if {"coupled", "decoupled"} <= names.keys():
                coupled, decoupled = (", ".join(names[kind]) for kind in ("coupled", "decoupled"))
                yield arena, f"{number:g} is coupled in {coupled} and decoupled in {decoupled}"


@check("inactive mechanism", "warn", "Do not ascribe any difference to it; see its warm-up, thresholds and signal.")
def inactive_mechanism(case: Analyses) -> Iterator[tuple[str, str]]:
    """The mechanism of an optimizer never acted in the final trials of an arena."""
    return ((m.arena, f"{m.optimizer} {m.state}") for m in case.of(mechanisms) if m.acted == 0)


@check("unused parts", "warn", "If its authors' loop calls more than step(), say so by `needs`, and run it again.")
def unused_parts(case: Analyses) -> tuple[Severity, str]:
    """State of an optimizer never changed in final trials (warn), or a public method was never called (note)."""
    found = {
        (arm.arena, f"{arm.optimizer} {words}"): words.startswith("state")
        for arm in case.results.arms
        for words in dict.fromkeys(words for run in arm.final for words in run.details.unused)
    }
    return "warn" if any(found.values()) else "note" if found else "pass", merged(found)


@check("mechanism not finite", "note", "Return 0 for what does not exist yet; the trials themselves are sound.")
def not_finite(case: Analyses) -> Iterator[tuple[str, str]]:
    """A quantity of a mechanism was not finite when it was read: that reading counts as no increase."""
    for arm in case.results.arms:
        lost = Counter[str]()
        for report in filter(None, (run.mechanism for run in arm.final)):
            lost.update(report.not_finite)
        yield from ((arm.arena, f"{arm.optimizer} {quantity} in {n} readings") for quantity, n in lost.items())


@check("clipped in every step", "warn", "Raise `clip_norm`, or turn it off for all.")
def clipped(case: Analyses) -> Iterator[tuple[str, str]]:
    """Gradient clipping acted in at least 95% of the steps of an arm: its gradients all have the same norm."""
    for arm in case.results.arms:
        rates = [run.result.clip_rate for run in arm.final if run.result]
        if rates and fmean(rates) >= CLIPPED_ALWAYS:
            norm = case.suite.clip_norm(arm.optimizer)
            yield arm.arena, f"{arm.optimizer} in {percent(fmean(rates))} of the steps, at {norm:g}"

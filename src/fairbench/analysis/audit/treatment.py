"""Checks of what each optimizer was given, and of what acted."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from statistics import fmean
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit.check import check, merged, some
from fairbench.optimizers.resolve import PRESETS, TREATMENTS, decay_kind, schedule
from fairbench.study.plan import Study

ALWAYS = 0.95
"""Share of clipped steps from which clipping is no exception."""
OWN = ("factory", "options", "arenas", "needs", "lr_scale", "lr")
"""Fields of an `OptimizerPlan` that are the optimizer's own; every other one could be given to any."""


@check("unequal treatment", "warn", "Give it to all, or add an arm that has all of it but the mechanism.")
def unequal_treatment(case: Analyses) -> str:
    """An optimizer has what others could have had: clipping, groups, a schedule, a preset, its own weight decay."""
    study = case.results.study

    def unequal() -> Iterator[tuple[str, str]]:
        for arena in study.suite.arenas:
            given = {name: _treatments(study, arena, name) for name in study.suite.optimizers}
            for treatment in dict.fromkeys(x for of_one in given.values() for x in of_one):
                values = {name: of_one[treatment] for name, of_one in given.items() if treatment in of_one}
                if len(set(values.values())) > 1:
                    yield arena, f"{treatment} {_by_value(values)}"

    return merged(unequal())


def _treatments(study: Study, arena: str, name: str) -> dict[str, str]:
    """What an optimizer has in an arena of all that any other one could have, by what it is."""
    plan, resolved = study.suite.optimizers[name], study.optimizers[name]
    options = {**resolved.options, **resolved.arenas.get(arena, {})}
    found = {field.name: _word(getattr(plan, field.name)) for field in fields(plan) if field.name not in OWN}
    found["groups"] = resolved.groups or "off"
    found["schedule"] = schedule(resolved.needs)
    found["clip_norm"] = _word(study.suite.clip_norm(name))
    found |= dict.fromkeys(TREATMENTS.values(), "off")
    found |= {words: _word(options[option]) for option, words in TREATMENTS.items() if options.get(option)}
    found["preset"] = resolved.factory if resolved.factory in PRESETS else "off"
    found["options for this arena:"] = " + ".join(plan.arenas.get(arena, {})) or "none"
    if options.get("weight_decay") is not None and "weight_decay" not in study.suite.sweep.extra:
        found["weight decay"] = _word(options["weight_decay"])
    return found


def _word(value: Any) -> str:
    return "on" if value is True else f"{value:g}" if isinstance(value, float | int) and value else str(value or "off")


def _by_value(values: Mapping[str, str]) -> str:
    """Who has which value: "0.01 (AdamW, PsiLogic), 0.1 (Lion)"."""
    names: dict[str, list[str]] = {}
    for name, value in values.items():
        names.setdefault(value, []).append(name)
    return ", ".join(f"{value} ({some(who)})" for value, who in names.items())


@check("coupled decay", "warn", "Search the decay for each optimizer (`sweep.extra`), or leave it out for all.")
def coupled_decay(case: Analyses) -> str:
    """Coupled and decoupled weight decay have the same number, which means something else in each."""
    study = case.results.study
    if "weight_decay" in study.suite.sweep.extra:
        return ""

    def same_number() -> Iterator[tuple[str, str]]:
        for arena in study.suite.arenas:
            kinds: dict[float, dict[str, list[str]]] = {}
            for name, resolved in study.optimizers.items():
                options = {**resolved.options, **resolved.arenas.get(arena, {})}
                if options.get("weight_decay"):
                    of_number = kinds.setdefault(options["weight_decay"], {})
                    of_number.setdefault(decay_kind(resolved.factory, options), []).append(name)
            for number, of_number in kinds.items():
                if {"coupled", "decoupled"} <= of_number.keys():
                    who = {kind: ", ".join(of_number[kind]) for kind in ("coupled", "decoupled")}
                    yield arena, f"{number:g} is coupled in {who['coupled']} and decoupled in {who['decoupled']}"

    return merged(same_number())


@check("inactive mechanism", "warn", "Do not ascribe any difference to it; see its warm-up, thresholds and signal.")
def inactive_mechanism(case: Analyses) -> str:
    """The mechanism of an optimizer that has one of its own never acted in the final trials of an arena."""
    return merged((m.arena, f"{m.optimizer} {m.state}") for m in case.mechanisms if m.acted == 0)


@check("clipped in every step", "warn", "Raise `clip_norm`, or turn it off for all.")
def clipped(case: Analyses) -> str:
    """Gradient clipping acted in 95% of the steps of an arm or more: its length is the same in all of them."""
    rates = {
        (arm.arena, arm.optimizer): [run.result["clip_rate"] for run in arm.final if run.result]
        for arm in case.results.arms
    }
    often = ((x, fmean(of_arm)) for x, of_arm in rates.items() if of_arm and fmean(of_arm) >= ALWAYS)
    norm = case.suite.clip_norm
    return merged(
        (arena, f"{name} in {100 * rate:.0f}% of the steps, at {norm(name):g}") for (arena, name), rate in often
    )

"""The time, disk space and statistical power of a study before it runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean, variance
from typing import Any

from fairbench.analysis.results import Results, collect
from fairbench.study.plan import Lookup, typical_trial
from fairbench.study.preflight import Preflight, trial_seconds
from fairbench.study.trial_spec import TrialSpec

RECORD_BYTES = 1450
"""Bytes of a record without its spec, losses and evaluations: hashes, counts, times, machine and versions."""
FINAL_VALUES = {"sweep": 1, "final": 2}
"""Splits whose last evaluation a record repeats, by stage."""
LOSS_BYTES, EVALUATION_BYTES, METRIC_BYTES = 42, 46, 36
"""Of a number in the loss curve; of an evaluation, and of each of its metrics."""
ROW_BYTES = 67
"""Of a row of `steps.csv`, which is nearly all of the tables."""
FIGURE_BYTES = 430_000
"""Of the figures and the page, for each arena: those of the suite `mini`."""


@dataclass(frozen=True)
class Forecast:
    """What an arena takes, all its arms together, and what it can find.

    Attributes:
        sweep_trials: trials of stage 1, without extensions of a grid.
        extensions: trials that extensions may add at most.
        final_trials: trials of stage 2.
        seconds: of training and evaluation, one trial at a time, without extensions.
        most_seconds: the same with all extensions.
        disk: bytes of records, tables, figures and page, with all extensions.
        effect: the smallest difference that is found with 80% power at the strictest step of Holm's correction, in
            standard deviations between seeds; None if alpha cannot be reached.
        spread: standard deviation between seeds of the primary metric, pooled over the arms that have records; None
            where there are none.
    """

    arena: str
    sweep_trials: int
    extensions: int
    final_trials: int
    seconds: float
    most_seconds: float
    disk: float
    effect: float | None
    spread: float | None


def forecast(preflight: Preflight, lookup: Lookup) -> list[Forecast]:
    """What each arena takes and can find.

    Args:
        preflight: the study, and how long its steps and evaluations take.
        lookup: returns the record of a trial, or None; recorded seeds give the spread.
    """
    study = preflight.study
    results = collect(study, lookup)
    return [_forecast(preflight, arena, results) for arena in study.suite.arenas]


def _forecast(preflight: Preflight, arena: str, results: Results) -> Forecast:
    from fairbench.analysis.statistics.power import (
        minimum_detectable_effect,  # scipy, which `fairbench status` does without
    )

    study, seconds = preflight.study, trial_seconds(preflight, arena)
    suite = study.suite
    searches = [study.search(x) for x in suite.optimizers if study.tuned(x) and suite.tuned_on(arena) == arena]
    sweeps = len(suite.sweep.seeds) * sum(len(search.first()) for search in searches)
    extensions = len(suite.sweep.seeds) * sum(search.most for search in searches)
    finals = len(suite.optimizers) * len(suite.final.seeds)
    usual = sweeps * seconds["sweep"] + finals * seconds["final"]
    sizes = {stage: fmean(_trial_bytes(preflight, arena, x, stage) for x in suite.optimizers) for stage in seconds}
    family = len(suite.arenas) * len(suite.pairs)
    return Forecast(
        arena=arena,
        sweep_trials=sweeps,
        extensions=extensions,
        final_trials=finals,
        seconds=usual,
        most_seconds=usual + extensions * seconds["sweep"],
        disk=(sweeps + extensions) * sizes["sweep"] + finals * sizes["final"] + FIGURE_BYTES,
        effect=minimum_detectable_effect(len(suite.final.seeds), suite.alpha / max(family, 1)),
        spread=_spread(results, arena),
    )


def _trial_bytes(preflight: Preflight, arena: str, optimizer: str, stage: str) -> float:
    """What a trial adds to the disk: its record, and its rows in `steps.csv`."""
    suite = preflight.study.suite
    spec = typical_trial(preflight.study, arena, optimizer, stage, 0)
    metrics = len(suite.facts(arena).metrics)
    rows = losses(spec) + spec.training.evaluations * metrics
    return record_bytes(spec, metrics, preflight.mechanisms[optimizer][arena]) + ROW_BYTES * rows


def record_bytes(spec: TrialSpec, metrics: int, mechanism: Mapping[str, Any] | None = None) -> int:
    """About how large the record of a trial is.

    Args:
        metrics: how many metrics an evaluation has.
        mechanism: the report of the optimizer's mechanism over a few steps; a final trial has its curve, too.
    """
    its_spec = len(json.dumps({"spec": spec.as_stored}, indent=1))
    evaluations = spec.training.evaluations + FINAL_VALUES[spec.stage]
    measured = LOSS_BYTES * losses(spec) + evaluations * (EVALUATION_BYTES + METRIC_BYTES * metrics)
    described = 0
    if mechanism and spec.stage == "final":
        whole = {**mechanism, "course": mechanism["course"] * losses(spec)}
        described = len(json.dumps({"result": {"mechanism": whole}}, indent=1))
    return RECORD_BYTES + its_spec + measured + described


def losses(spec: TrialSpec) -> int:
    """How many windows of the training loss a trial records."""
    return ceil(spec.training.steps / spec.training.log_every)


def _spread(results: Results, arena: str) -> float | None:
    """The standard deviation between seeds, pooled over the arms that have two or more with a record."""
    metric = results.study.suite.arenas[arena].metric
    known = [scores for arm in results.of(arena) if len(scores := arm.scores(metric)) > 1]
    freedom = sum(len(scores) - 1 for scores in known)
    return sqrt(sum((len(scores) - 1) * variance(scores) for scores in known) / freedom) if known else None

"""Checks of the search for learning rates."""

from statistics import fmean, stdev

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults
from fairbench.common.checks import check
from fairbench.common.formatting import some
from fairbench.suites.search import Setting, are_numbers


def edge(arm: ArmResults) -> str:
    """The place of the selected rate among the tried ones, "lowest", "highest" or "inside"; empty without any."""
    if arm.lr is None or not arm.sweep:
        return ""
    return {arm.rates[0]: "lowest", arm.rates[-1]: "highest"}.get(arm.lr, "inside")


@check(
    "rate at the edge", "warn", "Widen the range of rates, or allow a grid more extensions (`sweep.max_extensions`)."
)
def at_edge(case: Analyses) -> str:
    """A selected learning rate is the lowest or the highest that was tried, extensions of the grid included."""
    tuned = [arm for arm in case.results.arms if edge(arm)]
    flagged = [f"{x.arena} {x.optimizer} ({edge(x)}, {x.lr:g})" for x in tuned if edge(x) != "inside"]
    if not flagged:
        return ""
    return (
        f"{len(flagged)} of {len(tuned)} selected learning rates lie at the edge of the rates that were tried, "
        f"extensions included: {', '.join(flagged)}. A rate beyond might be better."
    )


@check("selected by chance", "note", "Use more sweep seeds; or take the rates as equally good.")
def by_chance(case: Analyses) -> str:
    """The best setting of a sweep leads the second-best by less than the standard deviation between final seeds."""
    flagged = [text for arm in case.results.arms if (text := _narrow_lead(case, arm))]
    return f"{some(flagged)}." if flagged else ""


def _narrow_lead(case: Analyses, arm: ArmResults) -> str:
    """The lead of an arm's best setting in words, if final seeds differ by more; empty otherwise."""
    metric = case.suite.arenas[arm.arena].metric
    lower = case.suite.facts(arm.arena).metrics[metric] == "min"
    scores: dict[Setting | None, list[float]] = {}
    for run in arm.sweep:
        if (value := run.metric("val", metric)) is not None:
            scores.setdefault(run.setting, []).append(value if lower else -value)
    means = sorted(fmean(values) for values in scores.values())
    seeds = arm.scores(metric, "val")
    if arm.lr is None or len(means) < 2 or len(seeds) < 2 or means[1] - means[0] >= stdev(seeds):
        return ""
    return f"{arm.arena} {arm.optimizer} (leads by {means[1] - means[0]:.2g}, seeds differ by {stdev(seeds):.2g})"


@check("fewer rates", "note", "See whether the baseline's best rate lies well inside the rates that it tried.")
def fewer_rates(case: Analyses) -> str:
    """A baseline tried fewer learning rates than the reference, whose best rate lay at the edge more often."""
    pairs = [[case.results.arm(c.arena, x) for x in (c.baseline, c.reference)] for c in case.comparisons]
    flagged = [
        f"{theirs.arena} {theirs.optimizer} {len(theirs.rates)}, {ours.optimizer} {len(ours.rates)}"
        for theirs, ours in pairs
        if edge(theirs) and edge(ours) and len(theirs.rates) < len(ours.rates)
    ]
    return f"{some(flagged, '; ')}." if flagged else ""


@check("untuned", "note", "Read its verdicts as those of an untuned optimizer, or set `lr_scale` to search its rate.")
def untuned(case: Analyses) -> str:
    """An optimizer has a fixed learning rate and no search, while the rates of other optimizers are searched."""
    study = case.results.study
    fixed = [f"{name} (lr {study.optimizers[name].lr:g})" for name in study.suite.optimizers if not study.tuned(name)]
    return f"{', '.join(fixed)}: final trials only." if fixed else ""


@check("searched value at the end", "note", "Add values beyond it (`sweep.extra`) for all optimizers.")
def extra_at_end(case: Analyses) -> str:
    """The selected value of a hyperparameter that is searched with the rate is its lowest or its highest."""
    flagged = []
    for name, values in case.suite.sweep.extra.items():
        if len(values) > 2 and are_numbers(values):  # of two, each is an end
            for arm in case.results.arms:
                value = dict(arm.setting.extra).get(name) if arm.setting and arm.sweep else None
                if value in (min(values), max(values)):
                    flagged.append(f"{arm.arena} {arm.optimizer} ({name} {value:g})")
    return f"{some(flagged)}." if flagged else ""

"""Checks of the search for learning rates."""

from math import sqrt
from statistics import fmean, stdev

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults
from fairbench.common.checks import Severity, check
from fairbench.common.formatting import plain, plural, rate, some
from fairbench.study.plan import Selection
from fairbench.suites.search import Setting, are_numbers


def edge(arm: ArmResults) -> str:
    """The place of the selected rate among the tried ones, "lowest", "highest" or "inside"; empty without any.

    Where the search is repeated, one selected rate at the edge is enough.
    """
    if not (arm.selected and arm.sweep):
        return ""
    ends = {arm.rates[0]: "lowest", arm.rates[-1]: "highest"}
    return next((ends[rate] for rate in arm.selected.rates if rate in ends), "inside")


@check("rate at the edge", "warn", "Widen the range of rates, or give the searches more settings (`sweep.budget`).")
def at_edge(case: Analyses) -> str:
    """A selected learning rate is the lowest or the highest that was tried."""
    tuned = [arm for arm in case.results.arms if edge(arm)]
    ends = {"lowest": 0, "highest": -1}
    flagged = [f"{x.arena} {x.optimizer} ({edge(x)}, {rate(x.rates[ends[edge(x)]])})" for x in tuned if edge(x) in ends]
    if not flagged:
        return ""
    where = "selected at the edge of the rates that were tried"
    return (
        f"{where}: {', '.join(flagged)} ({len(flagged)} of {plural(len(tuned), 'arm')}). A rate beyond might be better."
    )


@check(
    "selected by chance",
    "warn",
    "Repeat the search for every final seed (`sweep.repeated`), or read the verdict as one about these settings only.",
)
def by_chance(case: Analyses) -> tuple[Severity, str]:
    """The best setting of a sweep leads the next by less than a standard error; a note without a better or worse."""
    won = [c for c in case.comparisons if c.verdict in ("better", "worse")]
    decided = {(case.suite.tuned_on(c.arena), name) for c in won for name in (c.optimizer, c.baseline)}
    leads = {(x.arena, x.optimizer): text for x in case.results.arms if (text := _narrow_lead(case, x))}
    weighty = [text for arm, text in leads.items() if arm in decided]
    return "warn" if weighty else "note" if leads else "pass", some(weighty or list(leads.values()))


def _narrow_lead(case: Analyses, arm: ArmResults) -> str:
    """The lead of an arm's best setting in words, if it may be chance; empty otherwise."""
    metric = case.suite.arenas[arm.arena].metric
    sign = case.suite.sign(arm.arena)
    scores: dict[Setting | None, list[float]] = {}
    for run in arm.selecting:
        if (value := run.metric("val", metric)) is not None:
            scores.setdefault(run.setting, []).append(sign * value)
    means = sorted((fmean(values) for values in scores.values()), reverse=True)
    seeds = arm.scores(metric, "val")
    if case.suite.sweep.repeated or not arm.selected or len(means) < 2 or len(seeds) < 2:
        return ""
    lead, error = means[0] - means[1], stdev(seeds) / sqrt(len(case.suite.sweep.seeds))
    sizes = f"leads by {plain(lead, '.2g')}, error {plain(error, '.2g')}"
    return f"{arm.arena} {arm.optimizer} ({sizes})" if lead < error else ""


@check("searched shorter than reported", "warn", "Confirm selections at the reported length (`sweep.confirm`).")
def searched_shorter(case: Analyses) -> tuple[Severity, str]:
    """Settings were selected by trials shorter than the final ones; a note names choices that a confirmation moved."""
    suite, shorter = case.suite, []
    for arena, plan in suite.arenas.items():
        tuned_on = suite.arenas[suite.tuned_on(arena)]
        steps = tuned_on.steps if suite.confirms(suite.tuned_on(arena)) else tuned_on.sweep_steps
        if steps < plan.steps:
            shorter.append(f"{arena} {steps} of {plan.steps} steps")
    if shorter and any(map(case.results.study.tuned, suite.optimizers)):
        return "warn", f"{', '.join(shorter)}."
    confirmed = [arm for arm in case.results.arms if arm.confirm and arm.selected]
    moved = [
        f"{arm.arena} {arm.optimizer} {_in_words(arm.searched)} to {_in_words(arm.selected)}"
        for arm in confirmed
        if arm.selected != arm.searched
    ]
    counted = f"the reported length moved {some(moved)} ({len(moved)} of {plural(len(confirmed), 'arm')})."
    return ("note", counted) if moved else ("pass", "")


def _in_words(selected: Selection) -> str:
    """The selected settings: rates, and values of what was searched with them."""
    return " or ".join(
        ", ".join([rate(setting.lr), *(f"{name} {value}" for name, value in setting.extra)])
        for setting in selected.settings
    )


@check("untuned", "warn", "Read its verdicts as those of an untuned optimizer, or set `lr_scale` to search its rate.")
def untuned(case: Analyses) -> str:
    """An optimizer has a learning rate that is fixed from the start; none was searched."""
    optimizers = case.results.study.optimizers
    fixed = [f"{name} (lr {rate(x.lr)})" for name, x in optimizers.items() if x.lr is not None]
    return f"{', '.join(fixed)}: final trials only." if fixed else ""


@check("searched value at the end", "note", "Add values beyond it (`sweep.extra`) for all optimizers.")
def extra_at_end(case: Analyses) -> str:
    """The selected value of a hyperparameter that is searched with the rate is its lowest or its highest."""
    flagged = []
    for name, values in case.suite.sweep.extra.items():
        if len(values) > 2 and are_numbers(values):  # of two, each is an end
            for arm in case.results.arms:
                chosen = {dict(x.extra)[name] for x in arm.selected.settings if arm.sweep and name in dict(x.extra)}
                ends = sorted(chosen & {min(values), max(values)})
                flagged += [f"{arm.arena} {arm.optimizer} ({name} {value:g})" for value in ends]
    return f"{some(flagged)}." if flagged else ""

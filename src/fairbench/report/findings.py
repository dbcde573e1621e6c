"""What the study shows, in sentences made from the numbers; it claims no more than the verdicts do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairbench.analysis.conditions import hash_checks
from fairbench.analysis.mechanism import mechanisms
from fairbench.analysis.power import minimum_detectable_effect
from fairbench.analysis.results import ArmResults, Results
from fairbench.analysis.verdicts import VERDICTS, Comparison
from fairbench.history import History
from fairbench.report.causes import causes
from fairbench.report.warnings import warnings
from fairbench.suite import RULES


@dataclass(frozen=True)
class Finding:
    """A statement about the study.

    Attributes:
        topic: what it is about, in a word or two.
        text: one or more sentences.
        warning: whether nobody may read the verdicts without it.
    """

    topic: str
    text: str
    warning: bool = False


def find(
    results: Results,
    comparisons: Sequence[Comparison],
    history: History,
    declared: Sequence[Comparison],
    no_figure: Mapping[str, str],
) -> list[Finding]:
    """Everything that must be said beside the tables, the most important first.

    Args:
        results: the study's results.
        comparisons: the verdict table.
        history: the plans of the study.
        declared: the verdict table by the plan that was declared before the first final trial, if there is one.
        no_figure: why figures could not be drawn, by their names.
    """
    alarming = warnings(results, comparisons, history, declared)
    texts = {
        **alarming,
        "Deviations": _deviations(results),
        "Frozen plan": _frozen(history),
        "Verdicts": _verdicts(results, comparisons),
        "Before correction": _lost_to_correction(results, comparisons),
        "Mechanism": _mechanism(results),
        "Causes": causes(results),
        "Power": _power(results, len(comparisons)),
        "Learning rates": _edges(results),
        "Same start, same data": _equal_conditions(results),
        "Divergence": _divergence(results),
        "Figures": "".join(f"{name} could not be drawn: {reason}. " for name, reason in no_figure.items()).rstrip(),
    }
    return [Finding(topic, text, topic in alarming) for topic, text in texts.items() if text]


def _deviations(results: Results) -> str:
    """What the suite itself says is no good practice."""
    suite = results.study.suite
    broken = [f"By choice of the suite, {RULES[rule]}." for rule in suite.breaks]
    return " ".join([*broken, *suite.deviations])


def _frozen(history: History) -> str:
    if not history.frozen:
        return ""
    when = history.plans[-1].declared
    return f"Declared {when} and frozen before the first final trial had a record; sha256 {history.frozen}."


def _verdicts(results: Results, comparisons: Sequence[Comparison]) -> str:
    if not comparisons:
        return "There is no baseline, so nothing is compared."
    suite = results.study.suite
    parts = []
    for verdict in VERDICTS:
        pairs = [suite.pair_title(c.arena, c.reference, c.baseline) for c in comparisons if c.verdict == verdict]
        if pairs or verdict == "better":
            where = f" ({', '.join(pairs)})" if pairs and verdict != "inconclusive" else ""
            parts.append(f"{verdict} in {len(pairs)}{where}")
    compared = f"{suite.reference} with a baseline" if suite.compare == "reference" else "every two optimizers"
    return (
        f"Of {_count(len(comparisons), 'comparison')} of {compared}, the verdict is "
        f"{'; '.join(parts)}. Only better is a win. Better and worse need a Holm-corrected p below {suite.alpha:g}; "
        f"equivalent needs an equivalence test with p below {suite.alpha:g}, which is not corrected; "
        "inconclusive means that these seeds cannot tell, not that there is no difference."
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _lost_to_correction(results: Results, comparisons: Sequence[Comparison]) -> str:
    suite, alpha = results.study.suite, results.study.suite.alpha
    lost = [c for c in comparisons if c.p is not None and c.p_holm is not None and c.p < alpha <= c.p_holm]
    if not lost:
        return ""
    pairs = ", ".join(
        f"{suite.pair_title(c.arena, c.reference, c.baseline)} (p = {c.p:.2g}, Holm p = {c.p_holm:.2g})" for c in lost
    )
    return (
        f"{_count(len(lost), 'comparison')} with p below {alpha:g} before Holm's correction and not after it: {pairs}. "
        f"A family of {len(comparisons)} can give such values by chance; they do not count."
    )


def _mechanism(results: Results) -> str:
    found = mechanisms(results)
    return " ".join(f"{m.arena}, {m.optimizer}: {m.state}." for m in found)


def _power(results: Results, family: int) -> str:
    suite = results.study.suite
    n, alpha = len(suite.final.seeds), suite.alpha
    if family == 0:
        return ""
    alone, strictest = minimum_detectable_effect(n, alpha), minimum_detectable_effect(n, alpha / family)
    if alone is None or strictest is None:
        return f"Cannot reach alpha = {alpha:g}: with fewer than 2 seeds there is no test, whatever the difference."
    corrected = f", or {strictest:.1f} at the strictest step of Holm's correction ({alpha:g}/{family})"
    return (
        f"With {n} seeds in each arm, a difference is found with 80% power only if it is at least {alone:.1f} standard "
        f"deviations between seeds (a single comparison at {alpha:g}){corrected if family > 1 else ''}."
    )


def edge(arm: ArmResults) -> str:
    """Whether the selected rate is the "lowest" or the "highest" that was tried, or lies "inside"."""
    if arm.lr is None:
        return ""
    return {arm.rates[0]: "lowest", arm.rates[-1]: "highest"}.get(arm.lr, "inside")


def _edges(results: Results) -> str:
    tuned = [arm for arm in results.arms if arm.lr is not None]
    if not tuned:
        return ""
    at_edge = [arm for arm in tuned if edge(arm) != "inside"]
    if not at_edge:
        return f"All {len(tuned)} selected learning rates lie inside the rates that were tried."
    names = ", ".join(f"{arm.arena} {arm.optimizer} ({edge(arm)}, {arm.lr:g})" for arm in at_edge)
    return (
        f"{len(at_edge)} of {len(tuned)} selected learning rates lie at the edge of the rates that were tried, "
        f"extensions included: {names}. A rate beyond might be better."
    )


def _equal_conditions(results: Results) -> str:
    checks = hash_checks(results)
    if not checks or not all(check.agrees for check in checks):
        return ""
    return (
        f"In all {len(checks)} groups of trials that share arena, stage and seed, the sha256 agree: of the initial "
        "weights (those of a process that knew no optimizer), and of batch order and noise of the trials that finished."
    )


def _divergence(results: Results) -> str:
    lost = results.select(lambda run: run.status == "diverged")
    if not lost:
        return ""
    final = sum(run.stage == "final" for run in lost)
    hopeless = ", ".join(f"{arm.arena} {arm.optimizer}" for arm in results.arms if arm.diverged)
    no_final = (
        f" At every rate of its sweep a trial diverged, so no final trial was run: {hopeless}." if hopeless else ""
    )
    return (
        f"{_count(len(lost), 'trial')} diverged, {final} of them final. A rate whose sweep trial diverged ranks last; "
        f"an arm with a diverged final trial is not tested, since the mean of the others would flatter it.{no_final}"
    )

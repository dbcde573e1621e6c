"""The results of a study in sentences; they claim no more than the verdicts do."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparability import HashCheck, hash_checks
from fairbench.analysis.comparison.controls import WHOLE, Contribution, contributions
from fairbench.analysis.comparison.size_trends import SizeTrend, size_trends
from fairbench.analysis.comparison.speedups import speedups
from fairbench.analysis.comparison.verdicts import VERDICTS
from fairbench.analysis.mechanism import mechanisms
from fairbench.common.formatting import SHOWN, plural, some
from fairbench.report.tables.numbers import interval, p_value
from fairbench.report.tables.speedup import speedup_text
from fairbench.study.history import History


@dataclass(frozen=True)
class Finding:
    """A statement about the study: its topic in a few words, and one or more sentences."""

    topic: str
    text: str


def find(analyses: Analyses) -> list[Finding]:
    """The statements that flags and tables do not make, the most important first."""
    texts = {
        "Frozen plan": _frozen(analyses.history),
        "Verdicts": _verdicts(analyses),
        "Meaning of the verdicts": _meaning(analyses),
        "Before correction": _lost_to_correction(analyses),
        "Speed-up": speed_up(analyses),
        "Mechanism": _mechanism(analyses),
        "Causes": causes(analyses),
        "Same start, same data": _equal_conditions(analyses.of(hash_checks)),
    }
    return [Finding(topic, text) for topic, text in texts.items() if text]


def _frozen(history: History) -> str:
    if not history.frozen:
        return ""
    when = history.plans[-1].declared
    return f"Declared {when} and frozen before the first final trial had a record; sha256 {history.frozen}."


def _verdicts(analyses: Analyses) -> str:
    """How often each verdict was made; the table of verdicts has the pairs."""
    suite, comparisons = analyses.suite, analyses.comparisons
    if not comparisons:
        return "There is no baseline, so nothing is compared."
    counts = Counter(c.verdict for c in comparisons)
    parts = [f"{verdict} in {counts[verdict]}" for verdict in VERDICTS if counts[verdict] or verdict == "better"]
    compared = f"{suite.reference} with a baseline" if suite.compare == "reference" else "every two optimizers"
    return f"Of {plural(len(comparisons), 'comparison')} of {compared}, the verdict is {', '.join(parts)}."


def _meaning(analyses: Analyses) -> str:
    """What the verdicts need, if one was decided."""
    suite, final = analyses.suite, analyses.suite.final
    if not any(c.verdict in ("better", "worse", "equivalent", "inconclusive") for c in analyses.comparisons):
        return ""
    looks = f"An arm has {final.in_words}: p, intervals and the equivalence test are corrected for these looks. "
    return (
        f"Only better is a win. {looks if final.looks else ''}"
        f"Better and worse need a Holm-corrected p below {suite.alpha:g}; "
        f"equivalent needs an equivalence test with p below {suite.alpha:g}, which is not corrected; "
        "inconclusive means that these seeds cannot decide, not that there is no difference."
    )


def _lost_to_correction(analyses: Analyses) -> str:
    comparisons, alpha = analyses.comparisons, analyses.suite.alpha
    tested = [(c, c.p_repeated, c.p_holm) for c in comparisons if c.p_repeated is not None and c.p_holm is not None]
    lost = [
        f"{analyses.title(c)} (p {p_value(p)}, Holm p {p_value(p_holm)})"
        for c, p, p_holm in tested
        if p < alpha <= p_holm
    ]
    if not lost:
        return ""
    return (
        f"{plural(len(lost), 'comparison')} with p below {alpha:g} before Holm's correction and not after it: "
        f"{some(lost)}. A family of {len(comparisons)} can give such values by chance; they do not count."
    )


def speed_up(analyses: Analyses) -> str:
    """Which arms are faster than the reference; empty without its curve over horizons."""
    rows = analyses.of(speedups)
    if not rows:
        return ""
    reference, faster = rows[0].reference, [row for row in rows if row.claimed]
    named = some([f"{row.arena}, {row.optimizer}: {speedup_text(row)}" for row in faster], "; ")
    return (
        f"{len(faster)} of {plural(len(rows), 'arm')} {'is' if len(faster) == 1 else 'are'} faster than {reference}, "
        f"which needs a verdict of better and an interval above 1{f'. {named}' if named else ''}. A speed-up is the "
        f"steps that {reference} needs for the same final value, over the arm’s own; ≥ and ≤ are beyond its horizons."
        + "".join(map(_trend, analyses.of(size_trends)))
    )


def _trend(row: SizeTrend) -> str:
    size = "" if row.trend is None else f" (trend {interval(row.trend, row.trend_low, row.trend_high)})"
    if row.verdict in ("grows", "shrinks", "holds"):
        return f" With size the speed-up of {row.optimizer} {row.verdict} in {row.arena}{size}."
    return f" Whether the speed-up of {row.optimizer} changes with size in {row.arena} cannot be told{size}."


def _mechanism(analyses: Analyses) -> str:
    """The effects of the first few mechanisms that acted, the reference's first; the audit names the inactive ones."""
    found = sorted(analyses.of(mechanisms), key=lambda m: m.optimizer != analyses.suite.reference)
    sentences = [f"{m.arena}, {m.optimizer}: {m.state}." for m in found if m.acted != 0][:SHOWN]
    if rest := len(found) - len(sentences):
        sentences.append(f"{plural(rest, 'other arm')} {'has' if rest == 1 else 'have'} one: see mechanism.csv.")
    return " ".join(sentences)


def _equal_conditions(checks: Sequence[HashCheck]) -> str:
    if not checks or not all(check.agrees for check in checks):
        return ""
    groups = f"{'all ' if checks[1:] else ''}{plural(len(checks), 'group')}"
    return (
        f"In {groups} of trials that share arena, stage and seed, the sha256 agree: of the initial weights (those of a "
        "process without an optimizer), and of batch order and noise of the trials that finished."
    )


def causes(analyses: Analyses) -> str:
    """The contribution of each rung in each arena, and the intervals without 0; empty without a control ladder."""
    rows = analyses.of(contributions)
    if not rows:
        return ""
    arenas = dict.fromkeys(x.arena for x in rows)
    sentences = [_arena([x for x in rows if x.arena == arena]) for arena in arenas]
    return (
        f"{' '.join(sentences)} Differences of neighbors on the control ladder {' '.join(analyses.suite.controls)}, "
        "positive where the later one is better, with 95% intervals that are paired by seed and not corrected. They "
        "show the source of a gain; the verdicts decide whether there is a gain."
    )


def _arena(rows: Sequence[Contribution]) -> str:
    rungs, whole = [row for row in rows if row.part != WHOLE], rows[-1]
    parts = ", ".join(f"{row.optimizer} {_size(row)}" for row in rungs)
    clear = [row.optimizer for row in rungs if row.ci_low and row.ci_high and row.ci_low * row.ci_high > 0]
    outside = f"; 0 lies outside the interval of {', '.join(clear)}" if clear else ""
    return f"{whole.arena}: {parts}; the whole {_size(whole)}{outside}."


def _size(row: Contribution) -> str:
    if row.contribution is None:
        return f"unknown ({row.note})"
    size = interval(row.contribution, row.ci_low, row.ci_high)
    return f"{size} ({row.note})" if row.ci_low is None else size

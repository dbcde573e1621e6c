"""The suite's reference optimizer against every other one, and what may be said of each comparison."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, get_args

from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.analysis.significance import hedges_g, holm, tost, welch

Verdict = Literal[
    "better", "worse", "equivalent", "inconclusive", "identical", "identical values", "diverged", "incomplete"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
NOT_DECLARED = "not declared"


@dataclass(frozen=True)
class Comparison:
    """The reference against one baseline in one arena: final value of the primary metric on the test split.

    `advantage`, its interval, `g` and `t` are positive where the reference is better, whichever direction of the
    metric is better. What could not be computed is None.

    Attributes:
        arena: name of the arena.
        metric: the primary metric.
        direction: "min" or "max", which is better.
        reference: the optimizer that is compared.
        baseline: the one it is compared with.
        verdict: what may be said; only "better" is a win.
        note: what else must be said, may be empty.
        mean_reference: mean over the reference's seeds, None unless all of them finished.
        mean_baseline: mean over the baseline's seeds, None unless all of them finished.
        advantage: difference of the means.
        ci_low: lower end of its 95% confidence interval, not corrected for the number of comparisons.
        ci_high: upper end.
        hedges_g: the difference in pooled standard deviations, see `hedges_g`.
        t: Welch's statistic.
        df: its degrees of freedom.
        p: its two-sided p-value.
        p_holm: `p` corrected for all comparisons of the suite.
        p_equivalence: p-value of the test that the difference is within the margin, not corrected.
        margin: the largest difference that does not matter, from the suite.
        n_reference: finished seeds of the reference.
        n_baseline: finished seeds of the baseline.
        diverged_reference: diverged seeds of the reference.
        diverged_baseline: diverged seeds of the baseline.
        seeds: planned seeds of each.
        identical_seeds: seeds in which both ended with the same weights, bit by bit.
        declared: the verdict by the plan that was declared before the first final trial, "not declared" if that plan
            has no such comparison; empty where no plan is known to be so old.
    """

    arena: str
    metric: str
    direction: str
    reference: str
    baseline: str
    verdict: Verdict
    note: str
    mean_reference: float | None
    mean_baseline: float | None
    advantage: float | None
    ci_low: float | None
    ci_high: float | None
    hedges_g: float | None
    t: float | None
    df: float | None
    p: float | None
    p_holm: float | None
    p_equivalence: float | None
    margin: float
    n_reference: int
    n_baseline: int
    diverged_reference: int
    diverged_baseline: int
    seeds: int
    identical_seeds: int
    declared: str

    @property
    def is_win(self) -> bool:
        """Whether the reference won; nothing else decides what is emphasized."""
        return self.verdict == "better"

    @property
    def statement(self) -> str:
        """The verdict with its note, and with the one that was declared first if that is another; for tables."""
        first = "not declared before" if self.declared == NOT_DECLARED else f"as declared: {self.declared}"
        notes = [self.note, first if self.declared not in ("", self.verdict) else ""]
        return f"{self.verdict} ({'; '.join(filter(None, notes))})" if any(notes) else self.verdict


def compare(results: Results) -> list[Comparison]:
    """Compare the reference with every other optimizer in every arena.

    The family of Holm's correction is arenas x baselines as the suite plans them, whatever has finished.

    Args:
        results: the study's results so far.

    Returns:
        A comparison for each arena and baseline, in the order of the suite.
    """
    suite = results.study.suite
    baselines = [name for name in suite.optimizers if name != suite.reference]
    found = [_compare(results, arena, baseline) for arena in suite.arenas for baseline in baselines]
    adjusted = holm([comparison.p for comparison in found])
    return [_judge(replace(c, p_holm=p), suite.alpha) for c, p in zip(found, adjusted, strict=True)]


def _compare(results: Results, arena: str, baseline: str) -> Comparison:
    """Everything but Holm's correction and what depends on it."""
    suite = results.study.suite
    plan = suite.arenas[arena]
    ours, theirs = results.arm(arena, suite.reference), results.arm(arena, baseline)
    a, b = ours.scores(plan.metric), theirs.scores(plan.metric)
    draft = Comparison(
        arena=arena,
        metric=plan.metric,
        direction=suite.facts(arena).metrics[plan.metric],
        reference=suite.reference,
        baseline=baseline,
        verdict="inconclusive",
        note="",
        **dict.fromkeys(_MEASURED, None),
        margin=plan.margin,
        n_reference=len(a),
        n_baseline=len(b),
        diverged_reference=ours.count("diverged"),
        diverged_baseline=theirs.count("diverged"),
        seeds=len(suite.final.seeds),
        identical_seeds=_identical_seeds(ours.final, theirs.final),
        declared="",
    )
    if note := _shortage((ours, theirs), "missing", "failed"):
        return replace(draft, verdict="incomplete", note=note)
    hopeless = [f"{arm.optimizer} diverged at every rate of the sweep" for arm in (ours, theirs) if arm.diverged]
    if note := ", ".join(hopeless) or _shortage((ours, theirs), "diverged"):
        return replace(draft, verdict="diverged", note=note)
    return _test(draft, a, b)


def beside(comparisons: Iterable[Comparison], declared: Iterable[Comparison]) -> list[Comparison]:
    """Comparisons with the verdicts that the same records give by the plan that was declared first."""
    first = {(c.arena, c.reference, c.baseline): c.verdict for c in declared}
    return [replace(c, declared=first.get((c.arena, c.reference, c.baseline), NOT_DECLARED)) for c in comparisons]


_MEASURED = (
    *("mean_reference", "mean_baseline", "advantage", "ci_low", "ci_high"),
    *("hedges_g", "t", "df", "p", "p_holm", "p_equivalence"),
)


def _test(draft: Comparison, a: list[float], b: list[float]) -> Comparison:
    """Fill in the tests of two complete arms; a smaller metric that is better changes its sign."""
    sign = -1.0 if draft.direction == "min" else 1.0
    oriented = [sign * x for x in a], [sign * x for x in b]
    test, same = welch(*oriented), a == b and draft.identical_seeds < draft.seeds
    return replace(
        draft,
        verdict="identical values" if same else draft.verdict,
        note="in every seed" if same else test.reason,
        mean_reference=fmean(a),
        mean_baseline=fmean(b),
        advantage=test.difference,
        ci_low=test.ci_low,
        ci_high=test.ci_high,
        hedges_g=hedges_g(*oriented),
        t=test.t,
        df=test.df,
        p=test.p,
        p_equivalence=tost(*oriented, draft.margin),
    )


def _judge(comparison: Comparison, alpha: float) -> Comparison:
    """The verdict of a comparison whose arms are complete, and what must be said beside it."""
    c = comparison
    if c.verdict != "inconclusive":
        return c
    within = c.p_equivalence is not None and c.p_equivalence < alpha
    if c.identical_seeds == c.seeds:
        return replace(c, verdict="identical", note="the same weights in every seed")
    if c.p_holm is not None and c.p_holm < alpha and c.advantage:
        verdict: Verdict = "better" if c.advantage > 0 else "worse"
        return replace(c, verdict=verdict, note=f"by less than the margin of {c.margin:g}" if within else "")
    note = f"the same weights in {c.identical_seeds} of {c.seeds} seeds" if c.identical_seeds else c.note
    return replace(c, verdict="equivalent" if within else "inconclusive", note=note)


def _shortage(arms: Iterable[ArmResults], *statuses: str) -> str:
    """Which arms have trials of some statuses: "AdamW diverged 2/5"."""
    counts = [(arm.optimizer, status, arm.count(status), len(arm.final)) for arm in arms for status in statuses]
    return ", ".join(f"{name} {status} {count}/{of}" for name, status, count, of in counts if count)


def _identical_seeds(ours: list[Run], theirs: list[Run]) -> int:
    hashes = {run.seed: run.hash("final_weights") for run in theirs}
    return sum(
        run.hash("final_weights") is not None and run.hash("final_weights") == hashes.get(run.seed) for run in ours
    )

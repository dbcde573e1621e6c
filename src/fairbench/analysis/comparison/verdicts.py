"""The comparison of two optimizers in an arena, and its verdict."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isclose, isfinite
from typing import Literal, get_args

from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.analysis.statistics.power import paired_seeds, welch_seeds
from fairbench.analysis.statistics.sequential import ONLY_LOOK, Look
from fairbench.analysis.statistics.significance import (
    Summary,
    TTest,
    Values,
    difference_test,
    equivalence,
    hedges_g,
    holm,
    seed_correlation,
    summarize,
    welch,
)
from fairbench.common.errors import UsageError
from fairbench.suites.stages import TESTS

Verdict = Literal[
    "better", "worse", "equivalent", "inconclusive", "identical", "identical values", "diverged", "incomplete"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
NOT_DECLARED = "not declared"
ROUNDING = 1e-6
"""The largest relative difference between two evaluations of the same weights that rounding explains."""


@dataclass(frozen=True)
class Comparison:
    """An optimizer against a baseline in one arena: final value of the primary metric on the test split.

    `gain`, its interval, `hedges_g` and `t` are positive where the optimizer is better, whichever direction of the
    metric is better. What could not be computed is None. One test gives the interval, `t`, `df`, `p`, `p_equivalence`
    and `seeds_needed`; the verdict comes from its `p_holm` and `p_equivalence`.

    Attributes:
        verdict: the conclusion on the optimizer; only "better" is a win.
        test: the test that decides, "paired" or "welch", see `TESTS`; or "one-sample" against a number.
        mean_optimizer, mean_baseline: mean of the metric over the seeds of this one; None unless all of both finished.
        gain: difference of the means, positive where the optimizer is better.
        ci_low, ci_high: end of the 95% confidence interval of the gain, not corrected for the number of
            comparisons; with looks a repeated interval, which covers at all looks together.
        hedges_g: the difference in pooled standard deviations, without the bias of small samples, see `hedges_g`.
        t: statistic of the test.
        df: degrees of freedom of the test.
        p: two-sided p-value of the test; with looks a repeated one, see `Look.repeated`.
        p_holm: `p` corrected for all comparisons of the suite.
        p_equivalence: p-value of the test that the difference is within the margin, not corrected for the number of
            comparisons; with looks a repeated one.
        margin: the largest difference that does not matter, from the suite; None without a declared margin.
        std_optimizer, std_baseline: standard deviation over the seeds of this one, ddof = 1.
        std_difference: standard deviation over the seeds of the difference of the pair.
        seed_correlation: correlation of the two arms over the seeds.
        p_other: `p` of the other test, which decides nothing.
        seeds_needed: seeds of each arm with which the test detects a difference of the margin with 80% power at the
            observed spread and the strictest step of Holm's correction, see `paired_seeds`.
        n_optimizer, n_baseline: number of finished seeds of this one.
        diverged_optimizer, diverged_baseline: number of diverged seeds of this one.
        seeds: planned seeds of each; with looks those of the last look at this comparison.
        identical_seeds: seeds in which both ended with the same weights, bit by bit.
        declared: the verdict by the plan that was declared before the first final trial, "not declared" if that plan
            has no such comparison; empty where no plan is older than the first final trial.
        tuned_optimizer, tuned_baseline: whether the learning rate of this one was searched.
    """

    arena: str
    metric: str
    direction: str
    optimizer: str
    baseline: str
    verdict: Verdict = "inconclusive"
    note: str = ""
    test: str = "paired"
    mean_optimizer: float | None = None
    mean_baseline: float | None = None
    gain: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    hedges_g: float | None = None
    t: float | None = None
    df: float | None = None
    p: float | None = None
    p_holm: float | None = None
    p_equivalence: float | None = None
    margin: float | None = None
    std_optimizer: float | None = None
    std_baseline: float | None = None
    std_difference: float | None = None
    seed_correlation: float | None = None
    p_other: float | None = None
    seeds_needed: int | None = None
    n_optimizer: int = 0
    n_baseline: int = 0
    diverged_optimizer: int = 0
    diverged_baseline: int = 0
    seeds: int = 0
    identical_seeds: int = 0
    declared: str = ""
    tuned_optimizer: bool = True
    tuned_baseline: bool = True

    @property
    def pair(self) -> tuple[str, str, str]:
        """Arena, optimizer and baseline, which name a comparison."""
        return self.arena, self.optimizer, self.baseline

    @property
    def sign(self) -> float:
        """The factor that makes higher values of the metric better."""
        return -1.0 if self.direction == "min" else 1.0

    @property
    def exchanged(self) -> "Comparison":
        """The comparison of the baseline with the optimizer."""
        values, other = vars(self), {"optimizer": "baseline", "baseline": "optimizer"}
        sides = [(name, *name.rpartition("_")) for name in values if name.rpartition("_")[2] in other]
        found = {name: values[head + line + other[side]] for name, head, line, side in sides}
        signed = {"gain": "gain", "hedges_g": "hedges_g", "t": "t", "ci_low": "ci_high", "ci_high": "ci_low"}
        found |= {name: None if values[of] is None else -values[of] for name, of in signed.items()}
        opposite = {"better": "worse", "worse": "better"}
        return replace(self, **found, **{x: opposite.get(values[x], values[x]) for x in ("verdict", "declared")})

    @property
    def is_win(self) -> bool:
        """Whether the optimizer won; this alone decides what is emphasized."""
        return self.verdict == "better"

    @property
    def statement(self) -> str:
        """The verdict with its note, the declared verdict if it differs, and untuned optimizers; for tables."""
        first = "not declared before" if self.declared == NOT_DECLARED else f"as declared: {self.declared}"
        sides = ((self.optimizer, self.tuned_optimizer), (self.baseline, self.tuned_baseline))
        untuned = " and ".join(name for name, tuned in sides if not tuned)
        notes = [self.note, first if self.declared not in ("", self.verdict) else "", untuned and f"{untuned} untuned"]
        return f"{self.verdict} ({'; '.join(filter(None, notes))})" if any(notes) else self.verdict


def judge(family: Sequence[Comparison], alpha: float) -> list[Comparison]:
    """Give each comparison of a family its corrected p-value and its verdict; alpha is the family-wise error rate."""
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie between 0 and 1, as 0.05 for 5%; got {alpha:g}")
    adjusted = holm([c.p for c in family])
    return [_judge(replace(c, p_holm=p), alpha, alpha / len(family)) for c, p in zip(family, adjusted, strict=True)]


def compare(results: Results, look: Look, arena: str, optimizer: str, baseline: str) -> Comparison:
    """A comparison at a look, before Holm's correction; the results have its seeds."""
    suite = results.study.suite
    plan = suite.arenas[arena]
    ours, theirs = results.arm(arena, optimizer), results.arm(arena, baseline)
    a, b = ours.scores(plan.metric), theirs.scores(plan.metric)
    begun = Comparison(
        arena,
        plan.metric,
        suite.direction(arena),
        optimizer,
        baseline,
        test=suite.final.test,
        margin=plan.margin,
        n_optimizer=len(a),
        n_baseline=len(b),
        diverged_optimizer=ours.count("diverged"),
        diverged_baseline=theirs.count("diverged"),
        seeds=look.seeds,
        identical_seeds=_identical_seeds(ours.final, theirs.final),
        tuned_optimizer=ours.tuned,
        tuned_baseline=theirs.tuned,
    )
    if note := _shortage((ours, theirs), "missing", "failed"):
        return replace(begun, verdict="incomplete", note=note)
    no_rate = [f"{arm.optimizer} diverged at every rate of the sweep" for arm in (ours, theirs) if arm.diverged]
    if note := ", ".join(no_rate) or _shortage((ours, theirs), "diverged"):
        return replace(begun, verdict="diverged", note=note)
    valueless = [arm.optimizer for arm, scores in ((ours, a), (theirs, b)) if len(scores) < len(arm.final)]
    if valueless:
        return replace(begun, verdict="incomplete", note=f"finished trials without a value: {' and '.join(valueless)}")
    return of_values(begun, a, b, look=look)


def summarized(begun: Comparison, ours: Summary, theirs: Summary) -> Comparison:
    """Fill in the statistics of two complete arms of which only n, mean and standard deviation are known."""
    test = welch(*(replace(arm, mean=begun.sign * arm.mean) for arm in (ours, theirs)))
    return _filled(replace(begun, test="welch"), ours, theirs, test, ONLY_LOOK)


def of_values(begun: Comparison, a: Values, b: Values, *, look: Look = ONLY_LOOK) -> Comparison:
    """Fill in the statistics of two complete arms by the values of every seed, in the same order in both."""
    arms = [begun.sign * x for x in a], [begun.sign * x for x in b]
    tests = {test: difference_test(test, *arms, level=look.level) for test in TESTS}
    decides = tests.pop(begun.test)
    (other,) = tests.values()
    filled = replace(
        _filled(begun, summarize(a), summarize(b), decides, look),
        std_difference=summarize([x - y for x, y in zip(a, b, strict=True)]).std if len(a) > 1 else None,
        seed_correlation=seed_correlation(a, b),
        p_other=look.repeated(other.p),
    )
    same = a == b and begun.identical_seeds < begun.seeds
    return replace(filled, verdict="identical values", note="in every seed") if same else filled


def _filled(begun: Comparison, ours: Summary, theirs: Summary, test: TTest, look: Look) -> Comparison:
    """A comparison with the summaries of its arms and the test that decides."""
    effect = hedges_g(ours, theirs)
    return replace(
        begun,
        note="; ".join(filter(None, (begun.note, test.reason))),
        mean_optimizer=ours.mean,
        mean_baseline=theirs.mean,
        gain=test.difference,
        ci_low=_finite(test.ci_low),
        ci_high=_finite(test.ci_high),
        hedges_g=None if effect is None else begun.sign * effect,
        t=test.t,
        df=test.df,
        p=look.repeated(test.p),
        p_equivalence=None if begun.margin is None else look.repeated(equivalence(test, begun.margin)),
        std_optimizer=ours.std if ours.n > 1 else None,
        std_baseline=theirs.std if theirs.n > 1 else None,
    )


def _finite(value: float | None) -> float | None:
    """A value, None where it exceeds the largest float."""
    return value if value is not None and isfinite(value) else None


def _judge(comparison: Comparison, alpha: float, strictest: float) -> Comparison:
    """The verdict of a comparison whose arms are complete, with its note."""
    c = replace(comparison, seeds_needed=_seeds_needed(comparison, strictest))
    if c.verdict != "inconclusive":
        return c
    if c.identical_seeds == c.seeds:
        means = c.mean_optimizer or 0.0, c.mean_baseline or 0.0
        if isclose(*means, rel_tol=ROUNDING):
            return replace(c, verdict="identical", note="the same weights in every seed")
        return replace(c, note="a contradiction: the same weights in every seed, other values")
    note = f"the same weights in {c.identical_seeds} of {c.seeds} seeds" if c.identical_seeds else c.note
    real = c.p_holm is not None and c.p_holm < alpha and bool(c.gain)
    if c.p_equivalence is not None and c.p_equivalence < alpha:
        return replace(c, verdict="equivalent", note="; ".join(filter(None, (note, "real, within the margin" * real))))
    if real:
        return replace(c, verdict="better" if (c.gain or 0.0) > 0 else "worse", note=c.note)
    return replace(c, note=note)


def _seeds_needed(c: Comparison, level: float) -> int | None:
    if c.margin is None or c.t is None:
        return None
    if c.test == "paired":
        return paired_seeds(c.margin, c.std_difference or 0.0, level)
    return welch_seeds(c.margin, c.std_optimizer or 0.0, c.std_baseline or 0.0, level)


def _shortage(arms: Iterable[ArmResults], *statuses: str) -> str:
    """Which arms have trials of some statuses: "AdamW diverged 2/5"."""
    counts = [(arm.optimizer, status, arm.count(status), len(arm.awaited)) for arm in arms for status in statuses]
    return ", ".join(f"{name} {status} {count}/{of}" for name, status, count, of in counts if count)


def _identical_seeds(*arms: Sequence[Run]) -> int:
    ours, theirs = ({(run.seed, run.hash("final_weights")) for run in runs} for runs in arms)
    return sum(weights is not None for _, weights in ours & theirs)

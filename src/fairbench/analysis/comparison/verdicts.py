"""The comparison of two optimizers in an arena, and its verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import Literal, get_args

from fairbench.analysis.statistics.power import paired_seeds, welch_seeds
from fairbench.analysis.statistics.significance import holm
from fairbench.common.errors import UsageError

Verdict = Literal[
    "better", "worse", "equivalent", "inconclusive", "identical", "identical values", "diverged", "incomplete"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
NOT_DECLARED = "not declared"
ROUNDING = 1e-6
"""The largest relative difference between two evaluations of the same weights that rounding explains."""
OPPOSITE: dict[str, Verdict] = {"better": "worse", "worse": "better"}
"""The verdicts that change if the optimizer and the baseline are exchanged."""


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
            comparisons; with interim analyses a repeated interval, which covers at all interim analyses together.
        hedges_g: the difference in pooled standard deviations, without the bias of small samples, see `hedges_g`.
        t: statistic of the test.
        df: degrees of freedom of the test.
        p: two-sided p-value of the test; with interim analyses a repeated one, see `InterimAnalysis.repeated`.
        p_holm: `p` corrected for all comparisons of the suite.
        p_equivalence: p-value of the test that the difference is within the margin, not corrected for the number of
            comparisons; with interim analyses a repeated one.
        p_no_worse: p-value of the one-sided test that the optimizer is not worse by the margin or more, not corrected
            for the number of comparisons; with interim analyses a repeated one.
        margin: the largest difference that does not matter, from the suite; None without a declared margin.
        std_optimizer, std_baseline: standard deviation over the seeds of this one, ddof = 1.
        std_difference: standard deviation over the seeds of the difference of the pair.
        seed_correlation: correlation of the two arms over the seeds.
        p_other: `p` of the other test, which decides nothing.
        seeds_needed: seeds of each arm with which the test detects a difference of the margin with 80% power at the
            observed spread and the strictest step of Holm's correction, see `paired_seeds`.
        n_optimizer, n_baseline: number of finished seeds of this one.
        diverged_optimizer, diverged_baseline: number of diverged seeds of this one.
        seeds: planned seeds of each; with interim analyses those of the last interim analysis of this comparison.
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
    p_no_worse: float | None = None
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
        if self.direction == "min":
            return -1.0
        return 1.0

    @property
    def exchanged(self) -> "Comparison":
        """The comparison of the baseline with the optimizer."""
        return replace(
            self,
            optimizer=self.baseline,
            baseline=self.optimizer,
            verdict=OPPOSITE.get(self.verdict, self.verdict),
            declared=OPPOSITE.get(self.declared, self.declared),
            mean_optimizer=self.mean_baseline,
            mean_baseline=self.mean_optimizer,
            gain=_negative(self.gain),
            ci_low=_negative(self.ci_high),
            ci_high=_negative(self.ci_low),
            hedges_g=_negative(self.hedges_g),
            t=_negative(self.t),
            p_no_worse=None,  # the margin lies on the other side
            std_optimizer=self.std_baseline,
            std_baseline=self.std_optimizer,
            n_optimizer=self.n_baseline,
            n_baseline=self.n_optimizer,
            diverged_optimizer=self.diverged_baseline,
            diverged_baseline=self.diverged_optimizer,
            tuned_optimizer=self.tuned_baseline,
            tuned_baseline=self.tuned_optimizer,
        )

    @property
    def is_win(self) -> bool:
        """Whether the optimizer won; this alone decides what is emphasized."""
        return self.verdict == "better"

    @property
    def statement(self) -> str:
        """The verdict with all notes in words, for tables.

        Notes also name a declared verdict that differs, and untuned optimizers.
        """
        notes = []
        if self.note:
            notes.append(self.note)
        if self.declared == NOT_DECLARED:
            notes.append("not declared before")
        elif self.declared not in ("", self.verdict):
            notes.append(f"as declared: {self.declared}")
        untuned = self._untuned()
        if untuned:
            notes.append(f"{' and '.join(untuned)} untuned")
        if not notes:
            return self.verdict
        return f"{self.verdict} ({'; '.join(notes)})"

    def _untuned(self) -> list[str]:
        """The names of the two optimizers whose learning rate was not searched."""
        names = []
        if not self.tuned_optimizer:
            names.append(self.optimizer)
        if not self.tuned_baseline:
            names.append(self.baseline)
        return names


def _negative(value: float | None) -> float | None:
    """The value with the other sign; None for None."""
    if value is None:
        return None
    return -value


def judge(family: Sequence[Comparison], alpha: float) -> list[Comparison]:
    """Give each comparison of a family its corrected p-value and its verdict.

    Args:
        family: the comparisons that are corrected together.
        alpha: the family-wise error rate.

    Raises:
        UsageError: alpha does not lie between 0 and 1.
    """
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie between 0 and 1, as 0.05 for 5%; got {alpha:g}")
    adjusted = holm([comparison.p for comparison in family])
    judged = []
    for comparison, p_holm in zip(family, adjusted, strict=True):
        corrected = replace(comparison, p_holm=p_holm)
        judged.append(_judge(corrected, alpha, strictest=alpha / len(family)))
    return judged


def _judge(comparison: Comparison, alpha: float, strictest: float) -> Comparison:
    """Set the verdict of a comparison and its note. A comparison that has another verdict already keeps it.

    Args:
        comparison: a comparison with its corrected p-value.
        alpha: the family-wise error rate.
        strictest: the level of the strictest step of Holm's correction.
    """
    c = replace(comparison, seeds_needed=_seeds_needed(comparison, strictest))
    if c.verdict != "inconclusive":
        return c  # an arm is incomplete or diverged, or all values are identical
    if c.identical_seeds == c.seeds:
        return _judge_same_weights(c)
    note = c.note
    if c.identical_seeds:
        note = f"the same weights in {c.identical_seeds} of {c.seeds} seeds"
    gain = c.gain or 0.0
    real = c.p_holm is not None and c.p_holm < alpha and gain != 0
    if c.p_equivalence is not None and c.p_equivalence < alpha:
        notes = [note] if note else []
        if real:
            notes.append("real, within the margin")
        return replace(c, verdict="equivalent", note="; ".join(notes))
    if not real:
        return replace(c, note=note)
    if gain > 0:
        return replace(c, verdict="better")
    return replace(c, verdict="worse")


def _judge_same_weights(c: Comparison) -> Comparison:
    """Set the verdict of two arms that ended with the same weights in every seed."""
    ours = c.mean_optimizer or 0.0
    theirs = c.mean_baseline or 0.0
    if isclose(ours, theirs, rel_tol=ROUNDING):
        return replace(c, verdict="identical", note="the same weights in every seed")
    return replace(c, note="a contradiction: the same weights in every seed, other values")


def _seeds_needed(c: Comparison, level: float) -> int | None:
    """The number of seeds of each arm with which the test detects the margin; None without a margin or a test."""
    if c.margin is None or c.t is None:
        return None
    if c.test == "paired":
        return paired_seeds(c.margin, c.std_difference or 0.0, level)
    return welch_seeds(c.margin, c.std_optimizer or 0.0, c.std_baseline or 0.0, level)

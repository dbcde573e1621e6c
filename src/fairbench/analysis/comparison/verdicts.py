"""The comparison of two optimizers in an arena, and its verdict."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

Verdict = Literal[
    "better", "worse", "equivalent", "inconclusive", "identical", "identical values", "diverged", "incomplete"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
NOT_DECLARED = "not declared"
OPPOSITE: dict[str, Verdict] = {"better": "worse", "worse": "better"}
"""The verdicts that change if the optimizer and the baseline are exchanged."""


@dataclass(frozen=True)
class Comparison:
    """An optimizer against a baseline in one arena: final value of the primary metric on the test split.

    `gain`, its interval, `hedges_g` and `t` are positive where the optimizer is better, whichever direction of the
    metric is better. What could not be computed is None. The verdict comes from `p_holm` and `p_equivalence_holm`,
    and the interval says the same: it excludes 0 where the verdict is better or worse, and lies within the margin
    where it is equivalent.

    Attributes:
        verdict: the conclusion on the optimizer; only "better" is a win.
        test: the test that decides, "paired" or "welch", see `TESTS`; or "one-sample" against a number.
        mean_optimizer, mean_baseline: mean of the metric over the seeds of this one; None unless all of both finished.
        gain: difference of the means, positive where the optimizer is better.
        ci_low, ci_high: end of the interval of the gain that decides the verdict. It contains what a finer search could
            still gain for either optimizer, and is corrected for the number of comparisons and interim analyses.
        ci_level: the share of such intervals that cover the true gain.
        error: standard error of the gain, over the seeds and over the choice of the test examples together.
        split_error: the part of `error` that comes from the choice of the test examples, see `SplitEffect`.
        finer_optimizer, finer_baseline: how much finer searches of both learning rates could still change the gain in
            favor of this one, see `changes_of_gain`; None if its best rate is the lowest or the highest that was tried.
        hedges_g: the difference in pooled standard deviations, without the bias of small samples, see `hedges_g`.
        t: `gain` divided by `error`.
        df: degrees of freedom of `error`.
        prior_df: the part of `df` that comes from the other comparisons of the arena, see `common_variance`.
        p: two-sided p-value of what remains of the gain if a finer search improves the other optimizer by its
            `finer_` value; with interim analyses a repeated one, see `InterimAnalysis.repeated`.
        p_holm: `p` corrected for all comparisons of the suite.
        p_equivalence: p-value of the test that the difference is within the margin, also if a finer search improves
            either optimizer; with interim analyses a repeated one.
        p_equivalence_holm: `p_equivalence` corrected for all comparisons of the suite.
        p_no_worse: p-value of the one-sided test that the optimizer is not worse by the margin or more, also if a finer
            search improves the baseline, not corrected for the number of comparisons; with interim analyses a repeated
            one.
        margin: the largest difference that does not matter, from the suite; None without a declared margin.
        std_optimizer, std_baseline: standard deviation over the seeds of this one, ddof = 1.
        std_difference: standard deviation over the seeds of the difference of the pair.
        seed_correlation: correlation of the two arms over the seeds.
        p_other: `p` of the other test, which decides nothing.
        seeds_needed: seeds of each arm with which the test alone detects a difference of the margin with 80% power, at
            the observed spread and the strictest step of Holm's correction, see `paired_seeds`.
        n_optimizer, n_baseline: number of finished seeds of this one.
        diverged_optimizer, diverged_baseline: number of diverged seeds of this one.
        seeds: planned seeds of each; with interim analyses those of the last interim analysis of this comparison.
        share: the share of the level that the interim analysis has; 1 without interim analyses.
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
    ci_level: float | None = None
    error: float | None = None
    split_error: float | None = None
    finer_optimizer: float | None = 0.0
    finer_baseline: float | None = 0.0
    hedges_g: float | None = None
    t: float | None = None
    df: float | None = None
    prior_df: float = 0.0
    p: float | None = None
    p_holm: float | None = None
    p_equivalence: float | None = None
    p_equivalence_holm: float | None = None
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
    share: float = 1.0
    identical_seeds: int = 0
    declared: str = ""
    tuned_optimizer: bool | None = None
    tuned_baseline: bool | None = None

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
            finer_optimizer=self.finer_baseline,
            finer_baseline=self.finer_optimizer,
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

        Notes also name a gain or a loss smaller than the margin, a declared verdict that differs, and untuned
        optimizers.
        """
        notes = []
        if self.note:
            notes.append(self.note)
        if self._is_small:
            notes.append("smaller than the margin")
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

    @property
    def _is_small(self) -> bool:
        """Whether the difference is real, and smaller than what does not matter. The interval may reach beyond."""
        if self.verdict not in ("better", "worse") or self.gain is None or self.margin is None:
            return False
        return abs(self.gain) < self.margin

    def _untuned(self) -> list[str]:
        """The names of the two optimizers whose learning rate was not searched."""
        names = []
        if self.tuned_optimizer is False:  # None: it is not known
            names.append(self.optimizer)
        if self.tuned_baseline is False:
            names.append(self.baseline)
        return names


def _negative(value: float | None) -> float | None:
    """The value with the other sign; None for None."""
    if value is None:
        return None
    return -value

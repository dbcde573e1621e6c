"""Comparison of two studies, A and B, arm by arm: differences of their verdicts, values and costs."""

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, NamedTuple

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.cost import costs
from fairbench.analysis.results import ArmResults
from fairbench.analysis.statistics.significance import deviation, difference_test
from fairbench.common.formatting import plural, short_hash
from fairbench.study.history import changes

HASHES = ("initial_weights", "batches", "noise")
"""The hashes that must agree between two trials with the same seed, so that their values are a pair."""
ELSEWHERE = ("margin", "sweep_steps", "tuning_arena", "log_every", "evaluation_batch_size")
"""Keys of an arena or of the training that change no final trial."""


class TwoVerdicts(NamedTuple):
    """A comparison that both studies have, as A made it and as B made it."""

    a: Comparison
    b: Comparison

    @property
    def title(self) -> str:
        """The name of the comparison in words."""
        return f"{self.a.arena}: {self.a.optimizer} against {self.a.baseline}"

    @property
    def changed(self) -> bool:
        """Whether the verdicts differ."""
        return self.a.verdict != self.b.verdict


@dataclass(frozen=True)
class TwoArms:
    """One arm that two studies have: final value of the primary metric on the test split, rate and cost.

    Attributes:
        gain: mean of B minus mean of A, positive where B is better; None where they are not compared.
        p: two-sided p-value, not corrected.
        method: "paired" where both have the same seeds with the same initial weights, batches and noise,
            otherwise "Welch"; empty where they are not compared.
        note: why they are not compared, or what the comparison depends on.
        mean_a, std_a, mean_b, std_b: mean and standard deviation (ddof = 1) over the finished seeds.
        n_a, n_b: finished seeds.
        lr_a, lr_b: the selected learning rate.
        step_ratio_a, step_ratio_b: time of a training step as a multiple of that of A's reference in the same study;
            None without timing trials.
    """

    arena: str
    optimizer: str
    metric: str
    direction: str
    gain: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    method: str
    note: str
    mean_a: float | None
    std_a: float | None
    n_a: int
    mean_b: float | None
    std_b: float | None
    n_b: int
    lr_a: float | None
    lr_b: float | None
    step_ratio_a: float | None
    step_ratio_b: float | None


def two_verdicts(a: Analyses, b: Analyses) -> list[TwoVerdicts]:
    """The comparisons that both studies have, in the order of A.

    B may compare the same two optimizers the other way round. Its comparison is then exchanged.
    """
    theirs = {}
    for comparison in b.comparisons:
        exchanged = comparison.exchanged
        theirs[exchanged.pair] = exchanged
    # after the exchanged ones, so that a comparison in the same direction replaces them
    for comparison in b.comparisons:
        theirs[comparison.pair] = comparison
    both = []
    for ours in a.comparisons:
        if ours.pair in theirs:
            both.append(TwoVerdicts(ours, theirs[ours.pair]))
    return both


def two_arms(a: Analyses, b: Analyses) -> list[TwoArms]:
    """The arms that both studies have, in the order of A."""
    theirs = b.results.by_name
    both = []
    for name, arm in a.results.by_name.items():
        if name in theirs:
            both.append(_two_arms(a, b, arm, theirs[name]))
    return both


def _two_arms(a: Analyses, b: Analyses, ours: ArmResults, theirs: ArmResults) -> TwoArms:
    """The row of an arm that both studies have."""
    arena = ours.arena
    metric = a.suite.arenas[arena].metric
    compared = _compared(a, b, ours, theirs, metric)
    reference = a.suite.reference
    values_a = _values(a, ours, metric, reference)
    values_b = _values(b, theirs, metric, reference)
    return TwoArms(
        arena=arena,
        optimizer=ours.optimizer,
        metric=metric,
        direction=a.suite.direction(arena),
        gain=compared.gain,
        ci_low=compared.ci_low,
        ci_high=compared.ci_high,
        p=compared.p,
        method=compared.method,
        note=compared.note,
        mean_a=values_a.mean,
        std_a=values_a.std,
        n_a=values_a.n,
        mean_b=values_b.mean,
        std_b=values_b.std,
        n_b=values_b.n,
        lr_a=values_a.lr,
        lr_b=values_b.lr,
        step_ratio_a=values_a.step_ratio,
        step_ratio_b=values_b.step_ratio,
    )


@dataclass(frozen=True)
class Compared:
    """The test of an arm of two studies; `TwoArms` explains the fields. An empty method: they are not compared."""

    note: str
    method: str = ""
    gain: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None


def _compared(a: Analyses, b: Analyses, ours: ArmResults, theirs: ArmResults, metric: str) -> Compared:
    """The test of an arm of two studies: of B against A. With an obstacle, only a note that names it."""
    obstacle = _obstacle(a, b, ours, theirs)
    if obstacle:
        return Compared(note=obstacle)
    sign = a.suite.sign(ours.arena)
    gains_a = [sign * value for value in ours.scores(metric)]
    gains_b = [sign * value for value in theirs.scores(metric)]
    method = "paired" if _conditions(ours) == _conditions(theirs) else "Welch"
    test = difference_test(method.lower(), gains_b, gains_a)
    differing = changes(_factory_and_options(a, ours), _factory_and_options(b, theirs))
    notes = [test.reason, *map(str, differing)]
    return Compared(
        note="; ".join(filter(None, notes)),
        method=method,
        gain=test.difference,
        ci_low=test.ci_low,
        ci_high=test.ci_high,
        p=test.p,
    )


def _conditions(arm: ArmResults) -> list[tuple[int | str | None, ...]]:
    """The seed and the hashes of each final trial. If those of two arms are equal, their values are pairs."""
    return [(run.seed, *map(run.hash, HASHES)) for run in arm.final]


def _factory_and_options(analyses: Analyses, arm: ArmResults) -> dict[str, Any]:
    """The factory of the optimizer of an arm, and its options apart from those that a sweep finds."""
    resolved = analyses.results.study.optimizers[arm.optimizer]
    spec = resolved.spec(arm.arena, searched={}, steps=0)  # the steps are the same in both studies
    return {"from": spec.factory, **spec.options}


@dataclass(frozen=True)
class ArmValues:
    """The values of one study for an arm; `TwoArms` explains the fields."""

    mean: float | None
    std: float | None
    n: int
    lr: float | None
    step_ratio: float | None


def _values(analyses: Analyses, arm: ArmResults, metric: str, reference: str) -> ArmValues:
    """The values of one study for an arm."""
    values = arm.scores(metric)
    return ArmValues(
        mean=fmean(values) if values else None,
        std=deviation(values),
        n=len(values),
        lr=arm.selected.lr if arm.selected else None,
        step_ratio=_step_ratio(analyses, arm, reference),
    )


def _step_ratio(analyses: Analyses, arm: ArmResults, reference: str) -> float | None:
    """The time of a training step as a multiple of that of the reference; None without timing trials of both."""
    step_ms = {cost.optimizer: cost.train_ms for cost in analyses.of(costs) if cost.arena == arm.arena}
    own_ms = step_ms.get(arm.optimizer)
    reference_ms = step_ms.get(reference)
    if not own_ms or not reference_ms:
        return None
    return own_ms / reference_ms


def _obstacle(a: Analyses, b: Analyses, ours: ArmResults, theirs: ArmResults) -> str:
    """The reasons why an arm of two studies is not compared; empty if there are none.

    They are another task, other data or another training, and seeds without a value.
    """
    differing = changes(_training_of_arena(a, ours.arena), _training_of_arena(b, ours.arena))
    reasons = [str(change) for change in differing]
    for letter, analyses, arm in (("A", a, ours), ("B", b, theirs)):
        metric = analyses.suite.arenas[arm.arena].metric
        seeds = len(arm.final)
        seeds_with_value = len(arm.scores(metric))
        if seeds_with_value < seeds or seeds == 0:
            reasons.append(f"{letter} has a value in {seeds_with_value} of {plural(seeds, 'seed')}")
    return "; ".join(reasons)


def _training_of_arena(analyses: Analyses, arena: str) -> dict[str, Any]:
    """The settings and data on which the final value of an arena depends, apart from the optimizer."""
    study = analyses.results.study
    plan = asdict(study.suite.arenas[arena])
    training = dict(vars(study.suite.training))
    for key in ELSEWHERE:
        plan.pop(key, None)
        training.pop(key, None)
    return {
        **plan,
        **training,
        "schedule": plan["schedule"] or training["schedule"],
        "data’s sha256": short_hash(study.arenas[arena].fingerprint),
        "selection": study.suite.selection,
    }

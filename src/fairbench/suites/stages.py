"""The two stages of a study, and the training of all trials, as a suite declares them."""

from dataclasses import dataclass, field
from typing import Any

from fairbench.common.formatting import plural

TESTS = {"paired": "of a pair's difference", "welch": "between seeds"}
"""The tests that may decide, by the differences seed by seed or by the two means, and what their spread is."""
SPENDING = ("obrien-fleming", "pocock")
"""How a suite may spread its error rate over the interim analyses: mostly to the last one, or much to early ones."""


@dataclass(frozen=True)
class Sweep:
    """Stage 1: the same search for every optimizer, see `fairbench.suites.search`.

    Attributes:
        lr_min: lowest rate.
        lr_max: highest rate.
        seeds: a setting's score is its mean over these seeds.
        evaluations: validation evaluations of a trial.
        points: log-spaced rates of the grid, both ends included.
        budget: rates that the search of every optimizer tries; 0 for the points of the grid alone.
        extra: names and values of hyperparameters that are searched with the rate; `warmup_steps` among them is the
            training's.
    """

    lr_min: float
    lr_max: float
    seeds: list[int]
    evaluations: int
    points: int
    budget: int = 0
    extra: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Final:
    """Stage 2: a few settings around the one that the sweep locates, with the final seeds; the best is reported.

    Attributes:
        seeds: the final seeds of an arm; with interim analyses, the most that it may get, in this order.
        evaluations: validation evaluations of a trial.
        settings: values of each searched hyperparameter that are trained, the located one in the middle; odd. More are
            added until the settings that continue have neighbors on both sides. 1 trusts the sweep alone.
        halve_after: seeds after which only the best two settings continue.
        interim_analyses: numbers of seeds after which the arms are judged; those whose comparisons are all
            decided get no more. Empty for arms that all get every seed.
        spending: how the error rate is spread over the interim analyses, see `SPENDING`.
        test: the test of every comparison, see `TESTS`.
    """

    seeds: list[int]
    evaluations: int
    settings: int = 3
    halve_after: int = 2
    interim_analyses: list[int] = field(default_factory=list)
    spending: str = "obrien-fleming"
    test: str = "paired"

    @property
    def numbers(self) -> list[int]:
        """The numbers of seeds after which the arms are judged.

        Without interim analyses, it is only the number of all.
        """
        return self.interim_analyses or [len(self.seeds)]

    @property
    def in_words(self) -> str:
        """The seeds of an arm: "5 seeds", or "5, 10 or 20 seeds" with interim analyses."""
        *fewer, most = self.numbers
        if not fewer:
            return plural(most, "seed")
        listed = ", ".join(str(number) for number in fewer)
        return f"{listed} or {plural(most, 'seed')}"


@dataclass(frozen=True)
class Training:
    """Settings of all trials; see `fairbench.study.trial_spec.TrainingSpec`.

    Attributes:
        warmup_steps: steps of linear warm-up, which come before the schedule.
        clip_norm: the global gradient norm is clipped to this; 0 is off.
        log_every: steps of a window of the training loss.
        evaluation_batch_size: examples that a model evaluates at a time; no metric depends on it.
        precision: "float32", or "bfloat16" for autocast.
        deterministic: whether a GPU runs deterministic algorithms, where torch has them.
        compile: whether model and optimizer step are compiled.
        schedule: of arenas and optimizers that have none of their own, see `Suite.schedule`.
        min_lr: the last rate as a share of the peak, in [0, 1).
    """

    warmup_steps: int
    clip_norm: float
    log_every: int
    evaluation_batch_size: int = 256
    precision: str = "float32"
    deterministic: bool = True
    compile: bool = False
    schedule: str = "cosine"
    min_lr: float = 0.0

"""What a study is: arenas x optimizers, how they are tuned, trained and compared."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

from fairbench.arenas.base import ArenaFacts
from fairbench.arenas.registry import ARENAS
from fairbench.optimizers.spec import OptimizerPlan

RULES = {
    "split": "learning rates are selected on the split that the report is about",
    "seeds": "learning rates are selected with seeds that the report is about",
}
"""Rules of a fair study, by what is not kept apart; a suite that repeats another study may have to break them."""
COMPARED = ("reference", "all")
"""Which pairs of optimizers a suite may compare: the reference with every other one, or every two."""


@dataclass(frozen=True)
class Sweep:
    """Stage 1: the same search for every optimizer, see `fairbench.suites.search`.

    Attributes:
        lr_min: lowest rate.
        lr_max: highest rate.
        seeds: seeds; a setting's score is its mean over them.
        evaluations: validation evaluations of a trial.
        search: "grid", or "random" for settings that are drawn.
        points: log-spaced rates of a grid, both ends included.
        max_extensions: rates that may be added, one at a time, where the best lies on the grid's edge.
        budget: settings that a random search draws.
        search_seed: seed of its draws.
        extra: name and values of a hyperparameter that is searched with the rate; none leaves each optimizer its own.
    """

    lr_min: float
    lr_max: float
    seeds: list[int]
    evaluations: int
    search: str = "grid"
    points: int = 0
    max_extensions: int = 0
    budget: int = 0
    search_seed: int = 0
    extra: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Final:
    """Stage 2: the selected learning rate, on seeds that stage 1 did not use.

    Attributes:
        seeds: seeds.
        evaluations: validation evaluations of a trial.
    """

    seeds: list[int]
    evaluations: int


@dataclass(frozen=True)
class Training:
    """What all trials share; see `fairbench.study.trial_spec.TrainingSpec`."""

    warmup_steps: int
    clip_norm: float
    log_every: int
    evaluation_batch_size: int = 256
    precision: str = "float32"
    deterministic: bool = True
    compile: bool = False


@dataclass(frozen=True)
class ArenaPlan:
    """One arena of a suite.

    Attributes:
        metric: the primary metric, the one that selects, is tested and decides the verdict.
        margin: differences of the primary metric below this do not matter (for the equivalence test).
        sweep_steps: steps of a sweep trial.
        steps: steps of a final trial.
        batch_size: examples in a training batch.
        data: where its data come from, see `fairbench.data.registry`.
        model: options of the arena's `build_model`.
        task: the arena's name or `module:Class`; empty if its name is that. So a suite has one task twice, at two
            horizons.
        tuned_on: the arena whose sweep selects for this one too; empty if it has its own.
        shock: how its training is disturbed, see `fairbench.arenas.shocks.registry`; empty if it is not.
        target: value of the primary metric on the validation split that a training should reach; None for none.
        facts: what an own arena says of itself, so that a study is read without it; None for one that fairbench knows.
    """

    metric: str
    margin: float
    sweep_steps: int
    steps: int
    batch_size: int
    data: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    task: str = ""
    tuned_on: str = ""
    shock: dict[str, Any] = field(default_factory=dict)
    target: float | None = None
    facts: ArenaFacts | None = None


@dataclass(frozen=True)
class Suite:
    """A study: arenas x optimizers, how they are tuned, trained and compared.

    Attributes:
        name: name of the suite.
        description: what it is for, in a sentence.
        reference: the optimizer that is compared with every other one.
        alpha: family-wise error rate of the comparisons.
        sweep: stage 1.
        final: stage 2.
        training: what all trials share.
        arenas: the arenas by name.
        optimizers: the optimizers by name.
        trial_timeout: seconds that a trial may take; 0 derives it from the preflight.
        checkpoint_every: seconds between the checkpoints of a trial; 0 for none until it is paused.
        breaks: rules that the suite breaks on purpose, see `RULES`.
        deviations: sentences on what else in it is no good practice; the report shows them.
        compare: which pairs are compared, see `COMPARED`.
        ladder: optimizers of which each adds one thing to the one before it; empty for none.
    """

    name: str
    description: str
    reference: str
    alpha: float
    sweep: Sweep
    final: Final
    training: Training
    arenas: dict[str, ArenaPlan]
    optimizers: dict[str, OptimizerPlan]
    trial_timeout: float = 0.0
    checkpoint_every: float = 300.0
    breaks: list[str] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)
    compare: str = "reference"
    ladder: list[str] = field(default_factory=list)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of optimizers that are compared in each arena; of a pair with the reference it is the first."""
        names = sorted(self.optimizers, key=lambda name: name != self.reference)
        return [pair for pair in combinations(names, 2) if self.compare == "all" or pair[0] == self.reference]

    def pair_title(self, arena: str, optimizer: str, baseline: str) -> str:
        """A comparison in words; that it is the reference which is compared goes without saying."""
        where = arena if optimizer == self.reference else f"{arena}, {optimizer}"
        return f"{where} against {baseline}"

    def pair_titles(self, compared: Iterable[tuple[str, str, str]]) -> str:
        """Comparisons in words: those of an arena in one, where there is no other in it.

        Args:
            compared: arena, optimizer and baseline of each.
        """
        named = [*compared]
        words = []
        for arena in self.arenas:
            here = [x for x in named if x[0] == arena]
            every = 2 < len(here) == len(self.pairs)
            words += [f"all {len(here)} of {arena}"] if every else [self.pair_title(*x) for x in here]
        return ", ".join(words)

    def task(self, arena: str) -> str:
        """What an arena is loaded by."""
        return self.arenas[arena].task or arena

    def facts(self, arena: str) -> ArenaFacts:
        """What is known of an arena's task."""
        return self.arenas[arena].facts or ARENAS[self.task(arena)]

    def tuned_on(self, arena: str) -> str:
        """The arena whose sweep selects for an arena: most often itself."""
        return self.arenas[arena].tuned_on or arena

    @property
    def data_tables(self) -> list[dict[str, Any]]:
        """The `data` tables of the arenas, which name the datasets to prepare."""
        return [arena.data for arena in self.arenas.values()]

    def clip_norm(self, optimizer: str) -> float:
        """To which global norm the gradients of an optimizer's trials are clipped; 0 is off."""
        own = self.optimizers[optimizer].clip_norm
        return self.training.clip_norm if own is None else own

    def to_json(self) -> dict[str, Any]:
        """The suite as plain JSON values; `fairbench.suites.loader.parse_suite` reads them."""
        return asdict(self)

"""The schema of a suite: arenas x optimizers, and how they are tuned, trained and compared."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import comb
from typing import Any

from fairbench.arenas.base import ArenaFacts
from fairbench.arenas.registry import ARENAS
from fairbench.common.formatting import plural
from fairbench.optimizers.spec import OptimizerPlan

RULES = {"split": "settings are selected on the split that the report is about"}
"""Rules of a fair study that a suite may break, with the description of the violation."""
ALL_ARENAS = "all arenas"
"""The place of an arena's name in rows over all of them."""
ALL = "all"
"""Stands for every optimizer in `Compare.baselines`."""
FEW = 8
"""The most optimizers that are named in a sentence."""
TESTS = {"paired": "of a pair's difference", "welch": "between seeds"}
"""The tests that may decide, by the differences seed by seed or by the two means, and what their spread is."""
SPENDING = {"obrien-fleming": 0.0, "pocock": 0.5}
"""How a suite may spread its error rate over the looks: hardly any early stopping, or the same bound at all looks.

The numbers are the exponents D of the bounds C t^(D - 1/2), see `fairbench.analysis.statistics.sequential`.
"""


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
        seeds: the final seeds of an arm; with looks, the most that it may get, in this order.
        evaluations: validation evaluations of a trial.
        settings: values of each searched hyperparameter that are trained, the located one in the middle; odd. More are
            added while the best lies at the edge. 1 trusts the sweep alone.
        halve_after: seeds after which only the best two settings continue.
        looks: numbers of seeds after which the arms are judged; those whose comparisons are all decided get no more.
            Empty for arms that all get every seed.
        spending: how the error rate is spread over the looks, see `SPENDING`.
        test: the test of every comparison, see `TESTS`.
    """

    seeds: list[int]
    evaluations: int
    settings: int = 3
    halve_after: int = 2
    looks: list[int] = field(default_factory=list)
    spending: str = "obrien-fleming"
    test: str = "paired"

    @property
    def numbers(self) -> list[int]:
        """The numbers of seeds after which the arms are judged; a single one without looks."""
        return self.looks or [len(self.seeds)]

    @property
    def in_words(self) -> str:
        """The seeds of an arm: "5 seeds", or "5, 10 or 20 seeds" with looks."""
        *fewer, most = self.numbers
        return f"{', '.join(map(str, fewer))}{' or ' if fewer else ''}{plural(most, 'seed')}"


@dataclass(frozen=True)
class Compare:
    """The pairs of a suite: every optimizer of one list with every baseline of the other, no two of them twice.

    Attributes:
        optimizers: the verdicts are on these; empty for all.
        baselines: what they are compared with; empty for the suite's reference, `["all"]` for every other one.
    """

    optimizers: list[str] = field(default_factory=list)
    baselines: list[str] = field(default_factory=list)

    def extended(self, names: Iterable[str]) -> "Compare":
        """The pairs with further optimizers, which are compared as the listed ones are."""
        return replace(self, optimizers=[*dict.fromkeys([*self.optimizers, *names])]) if self.optimizers else self


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


@dataclass(frozen=True)
class Cell:
    """The place of an arena among those that a suite file makes of one, see `fairbench.suites.expansion`.

    Attributes:
        family: the arena of the suite file.
        horizon: steps as a multiple of the arena's; on a ladder these grow with the parameters.
        size: the size of the model on a ladder; 0 without one.
        parameters: of the model, as the ladder counts them; 0 without one.
        curve_of: the arena with the reference's curve to which this one belongs, so that only the reference is
            trained; empty where every optimizer is.
    """

    family: str
    horizon: float = 1.0
    size: int = 0
    parameters: int = 0
    curve_of: str = ""


@dataclass(frozen=True)
class ArenaPlan:
    """One arena of a suite.

    Attributes:
        metric: the primary metric: it selects the learning rate and decides the verdict.
        margin: the largest difference of the primary metric that does not matter (for the equivalence test), positive.
        sweep_steps: steps of a sweep trial.
        steps: steps of a final trial.
        batch_size: examples in a training batch.
        data: source and options of its data, see `fairbench.data.datasets`.
        model: options of the arena's `build_model`.
        task: a known arena or `module:Class`, so that a suite can have one task twice; empty for the arena's name.
        tuned_on: the arena whose sweep also selects for this one; empty if it has a sweep.
        shock: a disturbance of its training, see `fairbench.arenas.shocks.registry`; empty for none.
        facts: the facts of a user's arena, so that a study can be read without its class; None for an included one.
        schedule: that of the learning rate; empty for the training's.
        cell: its place among the arenas that are made of one; None for an arena as the suite file has it.
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
    facts: ArenaFacts | None = None
    schedule: str = ""
    cell: Cell | None = None

    @property
    def curve_only(self) -> bool:
        """Whether only the reference is trained, see `Cell`."""
        return self.cell is not None and bool(self.cell.curve_of)


@dataclass(frozen=True)
class Suite:
    """A study: arenas x optimizers, how they are tuned, trained and compared.

    Attributes:
        name: name of the suite.
        description: its purpose, in a sentence.
        reference: the usual baseline: times, curves over horizons and speed-ups are relative to it.
        alpha: family-wise error rate of the comparisons.
        sweep: stage 1.
        final: stage 2.
        training: settings of all trials.
        arenas: by name.
        optimizers: by name.
        trial_timeout: limit of a trial in seconds; 0 derives it from the preflight.
        checkpoint_every: seconds between the checkpoints of a trial; 0 for none until it is paused.
        breaks: rules that the suite breaks on purpose, see `RULES`.
        deviations: sentences on other deviations from good practice; the report shows them.
        compare: the pairs that are compared; left out, all others with the reference.
        trend_margin: the largest exponent of a speed-up over size that does not matter; 0.05 is 12% for ten times the
            size.
        controls: the control ladder: optimizers, each of which adds one component to its predecessor; empty for none.
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
    compare: Compare = field(default_factory=Compare)
    trend_margin: float = 0.05
    controls: list[str] = field(default_factory=list)

    def optimizers_of(self, arena: str) -> list[str]:
        """The optimizers that are trained in an arena."""
        return [self.reference] if self.arenas[arena].curve_only else [*self.optimizers]

    @property
    def arms(self) -> list[tuple[str, str]]:
        """Every arena with every optimizer that is trained in it."""
        return [(arena, name) for arena in self.arenas for name in self.optimizers_of(arena)]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The optimizer and the baseline of each comparison in an arena, those with the reference as baseline first."""
        asked = self.compare
        baselines = [*self.optimizers] if ALL in asked.baselines else asked.baselines or [self.reference]
        found: dict[frozenset[str], tuple[str, str]] = {}
        for baseline in sorted(baselines, key=lambda name: name != self.reference):
            for optimizer in asked.optimizers or self.optimizers:
                if optimizer != baseline:
                    found.setdefault(frozenset((optimizer, baseline)), (optimizer, baseline))
        return [*found.values()]

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The optimizers that are compared, and their baselines, each in the order of the pairs."""
        optimizers, baselines = (dict.fromkeys(pair[side] for pair in self.pairs) for side in (0, 1))
        return [*optimizers], [*baselines]

    @property
    def every_pair(self) -> bool:
        """Whether all pairs of three or more optimizers are compared."""
        return len(self.optimizers) > 2 and len(self.pairs) == comb(len(self.optimizers), 2)

    @property
    def question(self) -> str:
        """What is compared, in words: "PsiLogic against AdamW and Lion"; empty without a pair."""
        if self.every_pair:
            return f"every pair of {_named([*self.optimizers], 'optimizers')}"
        return " against ".join(map(_named, self.sides, ("optimizers", "baselines"))) if self.pairs else ""

    @property
    def compared(self) -> list[tuple[str, str, str]]:
        """The family of comparisons: arena, optimizer and baseline of each."""
        return [(arena, *pair) for arena in self.compared_arenas for pair in self.pairs]

    @property
    def compared_arenas(self) -> list[str]:
        """The arenas in which every optimizer is trained."""
        return [name for name, plan in self.arenas.items() if not plan.curve_only]

    def pair_title(self, arena: str, optimizer: str, baseline: str) -> str:
        """A comparison in words, without the name of the optimizer if it is the only one that is compared."""
        where = f"{arena}, {optimizer}" if len(self.sides[0]) > 1 else arena
        return f"{where} against {baseline}"

    def pair_titles(self, compared: Iterable[tuple[str, str, str]]) -> list[str]:
        """Comparisons in words, abbreviated where all pairs of an arena are included.

        Args:
            compared: arena, optimizer and baseline of each.
        """
        named = [*compared]
        words = []
        for arena in self.arenas:
            here = [x for x in named if x[0] == arena]
            every = 2 < len(here) == len(self.pairs)
            words += [f"all {len(here)} of {arena}"] if every else [self.pair_title(*x) for x in here]
        return words

    @property
    def ladders(self) -> dict[str, list[str]]:
        """The arenas of each ladder; with schedules as a factor there is one for each."""
        found: dict[str, list[str]] = {}
        for name, plan in self.arenas.items():
            if plan.cell and plan.cell.size:
                found.setdefault("-".join(filter(None, (plan.cell.family, plan.schedule))), []).append(name)
        return found

    def task(self, arena: str) -> str:
        """The name or class by which an arena is loaded."""
        return self.arenas[arena].task or arena

    def facts(self, arena: str) -> ArenaFacts:
        """The facts of an arena's task."""
        return self.arenas[arena].facts or ARENAS[self.task(arena)]

    def direction(self, arena: str) -> str:
        """Which values of an arena's primary metric are better, "min" or "max"."""
        return self.facts(arena).metrics[self.arenas[arena].metric]

    def sign(self, arena: str) -> float:
        """The factor after which higher values of an arena's primary metric are better."""
        return 1.0 if self.direction(arena) == "max" else -1.0

    def better(self, arena: str) -> str:
        """The direction in words: "higher is better"."""
        return f"{'higher' if self.direction(arena) == 'max' else 'lower'} is better"

    @property
    def metrics(self) -> dict[str, Collection[str]]:
        """The names of the metrics of each arena."""
        return {arena: self.facts(arena).metrics for arena in self.arenas}

    def tuned_on(self, arena: str) -> str:
        """The arena whose sweep selects for an arena, usually itself."""
        return self.arenas[arena].tuned_on or arena

    @property
    def selection(self) -> str:
        """The split of all selections and curves: "val", or "test" in a suite that breaks that rule."""
        return "test" if "split" in self.breaks else "val"

    @property
    def selection_name(self) -> str:
        """The name of that split in texts."""
        return {"val": "validation"}.get(self.selection, self.selection)

    @property
    def data_tables(self) -> list[dict[str, Any]]:
        """The `data` tables of the arenas, which name the datasets to prepare."""
        return [arena.data for arena in self.arenas.values()]

    def schedule(self, arena: str, optimizer: str) -> tuple[str, float]:
        """The schedule of an optimizer in an arena, and its last rate as a share of the peak.

        The optimizer's own ones come first, then the arena's, then those of the training.
        """
        own, training = self.optimizers[optimizer], self.training
        name = own.schedule or self.arenas[arena].schedule or training.schedule
        return name, training.min_lr if own.min_lr is None else own.min_lr

    def clip_norm(self, optimizer: str) -> float:
        """The global norm to which an optimizer's gradients are clipped; 0 is off."""
        clip_norm = self.optimizers[optimizer].clip_norm
        return self.training.clip_norm if clip_norm is None else clip_norm

    def to_json(self) -> dict[str, Any]:
        """The suite as plain JSON values; `fairbench.suites.loader.parse_suite` reads them."""
        return asdict(self)


def _named(names: Sequence[str], kind: str) -> str:
    """A few names, or the number of many."""
    return ", ".join(names) if len(names) <= FEW else f"{len(names)} {kind}"


@dataclass(frozen=True)
class Ladder:
    """Sizes and horizons of one arena; each size is trained with each horizon.

    Attributes:
        sizes: widths of the model, rising, from which the rest of it follows, see `fairbench.arenas.sizes`.
        horizons: steps as a multiple of the arena's, which are those of the first size and grow as the parameters.
    """

    sizes: list[int]
    horizons: list[float]


@dataclass(frozen=True)
class SuiteFile(Suite):
    """A suite as its file has it; `fairbench.suites.expansion` makes further arenas of these.

    Attributes:
        ladder: the sizes and horizons of an arena, by its name.
        horizons: multiples of each arena's steps with which the reference is trained.
        schedules: learning-rate schedules with each of which every optimizer is trained.
        shock: shocks by name, with each of which every arena gets a twin.
    """

    ladder: dict[str, Ladder] = field(default_factory=dict)
    horizons: list[float] = field(default_factory=list)
    schedules: list[str] = field(default_factory=list)
    shock: dict[str, dict[str, Any]] = field(default_factory=dict)

"""The schema of a suite: arenas x optimizers, and how they are tuned, trained and compared."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import comb
from typing import Any

from fairbench.arenas.base import ArenaFacts
from fairbench.arenas.registry import ARENAS
from fairbench.common.grouping import grouped
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.stages import Final, Sweep, Training

RULES = {"split": "settings are selected on the split that the report is about"}
"""Rules of a fair study that a suite may break, with the description of the violation."""
ALL_ARENAS = "all arenas"
"""The place of an arena's name in rows over all of them."""
FEW = 8
"""The most optimizers that are named in a sentence."""
ALL = "all"
"""Stands for every optimizer in `Compare.baselines`."""


@dataclass(frozen=True)
class LadderPoint:
    """The place of an arena among those that a suite file makes of one, see `fairbench.suites.expansion`.

    Attributes:
        family: the arena of the suite file.
        horizon: steps as a multiple of the arena's; on a ladder these grow with the parameters.
        size: the size of the model on a ladder; 0 without one.
        parameters: of the model, as the ladder counts them; 0 without one.
        reference_curve_arena: the arena with the reference's curve to which this one belongs, so that only the reference is
            trained; empty where every optimizer is.
    """

    family: str
    horizon: float = 1.0
    size: int = 0
    parameters: int = 0
    reference_curve_arena: str = ""


@dataclass(frozen=True)
class ArenaPlan:
    """One arena of a suite.

    Attributes:
        metric: the primary metric: it selects the learning rate and decides the verdict.
        margin: the largest difference of the primary metric that does not matter (for the equivalence test), positive.
        sweep_steps: steps of a sweep trial.
        steps: steps of a final trial.
        batch_size: examples in a training batch; 0 where a program decides it.
        data: source and options of its data, see `fairbench.data.datasets`.
        model: options of the arena's `build_model`.
        task: a known arena or `module:Class`, so that a suite can have one task twice; empty for the arena's name.
        tuning_arena: the arena whose sweep also selects for this one; empty if it has a sweep.
        shock: a disturbance of its training, see `fairbench.arenas.shocks.registry`; empty for none.
        facts: the facts of a user's arena, so that a study can be read without its class; None for an included one.
        schedule: that of the learning rate; empty for the training's.
        ladder_point: its place among the arenas that are made of one; None for an arena as the suite file has it.
    """

    metric: str
    margin: float
    sweep_steps: int
    steps: int
    batch_size: int
    data: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    task: str = ""
    tuning_arena: str = ""
    shock: dict[str, Any] = field(default_factory=dict)
    facts: ArenaFacts | None = None
    schedule: str = ""
    ladder_point: LadderPoint | None = None

    @property
    def curve_only(self) -> bool:
        """Whether only the reference is trained, see `LadderPoint`."""
        return self.ladder_point is not None and bool(self.ladder_point.reference_curve_arena)


@dataclass(frozen=True)
class Ladder:
    """Sizes and horizons of one arena; each size is trained with each horizon.

    Attributes:
        sizes: widths of the model, rising, from which the rest of it follows, see `fairbench.arenas.registry`.
        horizons: steps as a multiple of the arena's, which are those of the first size and grow as the parameters.
    """

    sizes: list[int]
    horizons: list[float]


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

    def pairs(self, names: Sequence[str], reference: str) -> list[tuple[str, str]]:
        """The optimizer and the baseline of each pair, those with the reference as baseline first."""
        baselines = names if ALL in self.baselines else self.baselines or [reference]
        found: dict[frozenset[str], tuple[str, str]] = {}
        for baseline in sorted(baselines, key=lambda name: name != reference):
            for optimizer in self.optimizers or names:
                if optimizer != baseline:
                    found.setdefault(frozenset((optimizer, baseline)), (optimizer, baseline))
        return [*found.values()]


@dataclass(frozen=True)
class Suite:
    """A study: arenas x optimizers, how they are tuned, trained and compared.

    Attributes:
        description: its purpose, in a sentence.
        reference: the usual baseline: times, curves over horizons and speed-ups are relative to it.
        alpha: family-wise error rate of the comparisons.
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
        return [self.reference] if self.arenas[arena].curve_only else [*self.optimizers]

    @property
    def arms(self) -> list[tuple[str, str]]:
        return [(arena, name) for arena in self.arenas for name in self.optimizers_of(arena)]

    @property
    def all_seeds(self) -> dict[tuple[str, str], int]:
        """For each arm the number of all final seeds."""
        return dict.fromkeys(self.arms, len(self.final.seeds))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The optimizer and the baseline of each comparison in an arena, those with the reference as baseline first."""
        return self.compare.pairs([*self.optimizers], self.reference)

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The optimizers that are compared, and their baselines, each in the order of the pairs."""
        optimizers, baselines = (dict.fromkeys(pair[side] for pair in self.pairs) for side in (0, 1))
        return [*optimizers], [*baselines]

    @property
    def every_pair(self) -> bool:
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
        """Comparisons (arena, optimizer, baseline) in words, abbreviated where all pairs of an arena are included."""
        words = []
        for arena, here in grouped((x[0], x) for x in compared).items():
            every = 2 < len(here) == len(self.pairs)
            words += [f"all {len(here)} of {arena}"] if every else [self.pair_title(*x) for x in here]
        return words

    @property
    def ladders(self) -> dict[str, list[str]]:
        """The arenas of each ladder; with schedules as a factor there is one for each."""
        cells = [(name, plan.ladder_point, plan.schedule) for name, plan in self.arenas.items() if plan.ladder_point]
        return grouped(("-".join(filter(None, (x.family, schedule))), name) for name, x, schedule in cells if x.size)

    def alike(self, arenas: Iterable[str], *but: str) -> list[list[str]]:
        """Some arenas in groups whose plans have the same task and differ in these fields alone."""

        def rest(name: str) -> str:
            plan = {**asdict(self.arenas[name]), "task": self.task(name)}
            return json.dumps({key: value for key, value in plan.items() if key not in but}, sort_keys=True)

        return [*grouped((rest(name), name) for name in arenas).values()]

    def task(self, arena: str) -> str:
        return self.arenas[arena].task or arena

    def facts(self, arena: str) -> ArenaFacts:
        return self.arenas[arena].facts or ARENAS[self.task(arena)]

    def direction(self, arena: str) -> str:
        """Which values of an arena's primary metric are better, "min" or "max"."""
        return self.facts(arena).metrics[self.arenas[arena].metric]

    def sign(self, arena: str) -> float:
        """The factor after which higher values of an arena's primary metric are better."""
        return 1.0 if self.direction(arena) == "max" else -1.0

    def better(self, arena: str) -> str:
        return f"{'higher' if self.direction(arena) == 'max' else 'lower'} is better"

    @property
    def metrics(self) -> dict[str, Collection[str]]:
        return {arena: self.facts(arena).metrics for arena in self.arenas}

    def tuning_arena(self, arena: str) -> str:
        """The arena whose sweep selects for an arena, usually itself."""
        return self.arenas[arena].tuning_arena or arena

    @property
    def selection(self) -> str:
        """The split of all selections and curves: "val", or "test" in a suite that breaks that rule."""
        return "test" if "split" in self.breaks else "val"

    @property
    def selection_name(self) -> str:
        return {"val": "validation"}.get(self.selection, self.selection)

    @property
    def data_tables(self) -> list[dict[str, Any]]:
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

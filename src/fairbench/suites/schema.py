"""The schema of a suite: arenas x optimizers, and how they are tuned, trained and compared."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from math import comb
from typing import Any

from fairbench.arenas.base import ArenaFacts
from fairbench.arenas.registry import ARENAS
from fairbench.common.grouping import grouped
from fairbench.common.wording import Wording
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.compare import Compare
from fairbench.suites.stages import Final, Sweep, Training

RULES = {"split": "settings are selected on the split that the report is about"}
"""Rules of a fair study that a suite may break, with the description of the violation."""
ALL_ARENAS = "all arenas"
"""The place of an arena's name in rows over all of them."""
FEW = 8
"""The most optimizers that are named in a sentence."""


@dataclass(frozen=True)
class Suite:
    """A study: arenas x optimizers, how they are tuned, trained and compared.

    Attributes:
        description: its purpose, in a sentence.
        reference: the usual baseline: times, curves over horizons and speed-ups are relative to it.
        alpha: family-wise error rate of the comparisons.
        trial_timeout: limit of a trial in seconds; 0 derives it from the preflight.
        checkpoint_every: seconds between the checkpoints of a trial; 0 for none until it is paused.
        first_steps: steps of a training program in its first check, before any trial; 0 for no check.
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
    first_steps: int = 2
    breaks: list[str] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)
    compare: Compare = field(default_factory=Compare)
    trend_margin: float = 0.05
    controls: list[str] = field(default_factory=list)

    def optimizers_of(self, arena: str) -> list[str]:
        """The optimizers that are trained in an arena."""
        if self.arenas[arena].curve_only:
            return [self.reference]
        return list(self.optimizers)

    @property
    def arms(self) -> list[tuple[str, str]]:
        """Each arena with each optimizer that is trained in it."""
        return [(arena, optimizer) for arena in self.arenas for optimizer in self.optimizers_of(arena)]

    @property
    def all_seeds(self) -> dict[tuple[str, str], int]:
        """The number of all final seeds, for each arm."""
        return dict.fromkeys(self.arms, len(self.final.seeds))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The optimizer and the baseline of each comparison in an arena. The reference is the first baseline."""
        return self.compare.pairs(list(self.optimizers), self.reference)

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The optimizers that are compared, and their baselines, each in the order of the pairs."""
        pairs = self.pairs
        optimizers = dict.fromkeys(optimizer for optimizer, _ in pairs)
        baselines = dict.fromkeys(baseline for _, baseline in pairs)
        return list(optimizers), list(baselines)

    @property
    def every_pair(self) -> bool:
        """Whether there are at least three optimizers, and each is compared with every other one."""
        return len(self.optimizers) > 2 and len(self.pairs) == comb(len(self.optimizers), 2)

    @property
    def question(self) -> str:
        """What is compared, in words: "PsiLogic against AdamW and Lion"; empty without a pair."""
        if self.every_pair:
            return f"every pair of {_named(list(self.optimizers), f'{self.noun}s')}"
        if not self.pairs:
            return ""
        optimizers, baselines = self.sides
        return f"{_named(optimizers, f'{self.noun}s')} against {_named(baselines, 'baselines')}"

    @property
    def compared(self) -> list[tuple[str, str, str]]:
        """The family of comparisons: arena, optimizer and baseline of each."""
        pairs = self.pairs
        return [(arena, optimizer, baseline) for arena in self.compared_arenas for optimizer, baseline in pairs]

    @property
    def compared_arenas(self) -> list[str]:
        """The arenas in which every optimizer is trained."""
        return [name for name, plan in self.arenas.items() if not plan.curve_only]

    def pair_title(self, arena: str, optimizer: str, baseline: str) -> str:
        """A comparison in words. A single compared optimizer is not named, a variant is."""
        optimizers, _ = self.sides
        if len(optimizers) > 1 or self.noun == "variant":
            return f"{arena}, {optimizer} against {baseline}"
        return f"{arena} against {baseline}"

    def pair_titles(self, compared: Iterable[tuple[str, str, str]]) -> list[str]:
        """Comparisons (arena, optimizer, baseline) in words.

        If all pairs of an arena are included, it has one title.
        """
        titles = []
        by_arena = grouped((arena, (optimizer, baseline)) for arena, optimizer, baseline in compared)
        for arena, pairs in by_arena.items():
            if len(pairs) > 2 and len(pairs) == len(self.pairs):
                titles.append(f"all {len(pairs)} of {arena}")
                continue
            for optimizer, baseline in pairs:
                titles.append(self.pair_title(arena, optimizer, baseline))
        return titles

    @property
    def ladders(self) -> dict[str, list[str]]:
        """The arenas of each ladder. If schedules are combined with the arena, each schedule has a ladder."""
        ladders: dict[str, list[str]] = {}
        for name, plan in self.arenas.items():
            if plan.ladder_point and plan.ladder_point.size:
                family = plan.ladder_point.family
                ladder = f"{family}-{plan.schedule}" if plan.schedule else family
                ladders.setdefault(ladder, []).append(name)
        return ladders

    def alike(self, arenas: Iterable[str], *free_fields: str) -> list[list[str]]:
        """Groups of arenas that have the same task, and whose plans differ only in the free fields."""
        groups: dict[str, list[str]] = {}
        for name in arenas:
            plan = asdict(self.arenas[name])
            plan["task"] = self.task(name)
            compared = {key: value for key, value in plan.items() if key not in free_fields}
            group = json.dumps(compared, sort_keys=True)
            groups.setdefault(group, []).append(name)
        return list(groups.values())

    def task(self, arena: str) -> str:
        """The known arena that an arena trains, or its `module:Class`."""
        return self.arenas[arena].task or arena

    def facts(self, arena: str) -> ArenaFacts:
        """The facts of an arena: those of its plan, otherwise those of its task."""
        return self.arenas[arena].facts or ARENAS[self.task(arena)]

    def direction(self, arena: str) -> str:
        """Which values of an arena's primary metric are better, "min" or "max"."""
        return self.facts(arena).metrics[self.arenas[arena].metric]

    def sign(self, arena: str) -> float:
        """The factor that makes higher values better: 1 or -1, by the direction of an arena's primary metric."""
        return 1.0 if self.direction(arena) == "max" else -1.0

    def better(self, arena: str) -> str:
        """Which values of an arena's primary metric are better, in words."""
        if self.direction(arena) == "max":
            return "higher is better"
        return "lower is better"

    @property
    def metrics(self) -> dict[str, Collection[str]]:
        """The metrics of each arena."""
        return {arena: self.facts(arena).metrics for arena in self.arenas}

    def tuning_arena(self, arena: str) -> str:
        """The arena whose sweep selects for an arena, usually itself."""
        return self.arenas[arena].tuning_arena or arena

    @property
    def noun(self) -> str:
        """The name of what is compared: "variant" where all are variants of a program, otherwise "optimizer"."""
        plans = self.optimizers.values()
        if plans and all(plan.variant is not None for plan in plans):
            return "variant"
        return "optimizer"

    @property
    def wording(self) -> Wording:
        """The words of all texts on the study."""
        return Wording(self.noun, self.decides, [*self.optimizers])

    @property
    def searches(self) -> bool:
        """Whether there is a search: no variants are compared, or the learning rate of one is searched."""
        variants = [plan.variant for plan in self.optimizers.values() if plan.variant is not None]
        return not variants or any(variant.searched for variant in variants)

    @property
    def decides(self) -> str:
        """The split that the verdict is about: "test", or "val".

        It is "val" of variants for which nothing is searched, and of programs that report no test split.
        """
        if not self.searches:
            return "val"
        if self.selection == "test" and self.trains_programs:
            return "val"
        return "test"

    @property
    def trains_programs(self) -> bool:
        """Whether all arenas have training programs of the user."""
        return all(self.facts(arena).kind == "program" for arena in self.arenas)

    @property
    def selection(self) -> str:
        """The split of all selections and curves: "val", or "test" in a suite that breaks that rule."""
        return "test" if "split" in self.breaks else "val"

    @property
    def selected_on(self) -> str:
        """The split of the values that records keep under "val": "val", or "test" where `selection` is that.

        A program without a test split reports its validation split.
        """
        if self.decides == "val":
            return "val"
        return self.selection

    @property
    def selection_name(self) -> str:
        """The name of the split of `selected_on` in sentences."""
        if self.selected_on == "val":
            return "validation"
        return "test"

    @property
    def data_tables(self) -> list[dict[str, Any]]:
        """The source and the options of each arena's data."""
        return [arena.data for arena in self.arenas.values()]

    def schedule(self, arena: str, optimizer: str) -> tuple[str, float]:
        """The schedule of an optimizer in an arena, and its last learning rate as a share of the peak.

        A value of the optimizer takes precedence over one of the arena, and that over one of the training.
        """
        plan = self.optimizers[optimizer]
        name = plan.schedule or self.arenas[arena].schedule or self.training.schedule
        min_lr = self.training.min_lr
        if plan.min_lr is not None:
            min_lr = plan.min_lr
        return name, min_lr

    def clip_norm(self, optimizer: str) -> float:
        """The global norm to which an optimizer's gradients are clipped; 0 is off."""
        own = self.optimizers[optimizer].clip_norm
        if own is not None:
            return own
        return self.training.clip_norm

    def to_json(self) -> dict[str, Any]:
        """The suite as plain JSON values; `fairbench.suites.loader.parse_suite` reads them."""
        return asdict(self)


def _named(names: Sequence[str], kind: str) -> str:
    """A few names as a list; for many names, only their number and kind."""
    if len(names) <= FEW:
        return ", ".join(names)
    return f"{len(names)} {kind}"

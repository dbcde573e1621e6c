"""One arena of a suite, and how several arenas are made of one."""

from dataclasses import dataclass, field
from typing import Any

from fairbench.arenas.base import ArenaFacts


@dataclass(frozen=True)
class LadderPoint:
    """The place of an arena among the arenas that a suite file makes of one, see `fairbench.suites.expansion`.

    Attributes:
        family: the name of the arena in the suite file.
        horizon: steps as a multiple of the arena's; on a ladder these grow with the parameters.
        size: the size of the model on a ladder; 0 without one.
        parameters: number of parameters of the model, as the ladder counts them; 0 without a ladder.
        reference_curve_arena: the arena with the reference's curve to which this one belongs, so that only the
            reference is trained; empty where every optimizer is.
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

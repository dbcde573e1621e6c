"""What fairbench knows of each optimizer without loading it: the facts of `facts.toml`, each measured by a test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fairbench.common.coercion import build
from fairbench.common.toml import tomllib


@dataclass(frozen=True)
class OptimizerFacts:
    """What fairbench knows of an optimizer without loading it.

    Attributes as those of `fairbench.optimizers.spec.OptimizerPlan`, and:
        title: the method, in a few words.
        decay: whether its weight decay is "decoupled" from the gradient, "coupled" (a part of it), "none" or "unknown".
        state: numbers that it keeps for each weight of a hidden matrix, without `factors`.
        factors: further state that grows with the model, in words; empty for none.
        reference: the paper.
    """

    factory: str
    title: str
    decay: Literal["coupled", "decoupled", "none", "unknown"] = "decoupled"
    options: Mapping[str, Any] = field(default_factory=dict)
    groups: str = ""
    lr_scale: float = 1.0
    lr: float | None = None
    needs: Sequence[str] = ()
    state: int = 2
    factors: str = ""
    reference: str = ""


FACTS = Path(__file__).with_name("facts.toml")
OPTIMIZERS: Mapping[str, OptimizerFacts] = build(dict[str, OptimizerFacts], tomllib.loads(FACTS.read_text("utf-8")), ())

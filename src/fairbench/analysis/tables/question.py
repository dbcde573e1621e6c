"""The question of a user about a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ALPHA = 0.05
"""The family-wise error rate of a table, unless another is given."""


@dataclass(frozen=True)
class Question:
    """The question of a user about a table: the arguments of `fairbench.verdicts`, which explains them.

    The keys of `columns` are `ROLES`.
    """

    optimizer: str = ""
    better: str = ""
    baselines: Sequence[str] = ()
    alpha: float = ALPHA
    columns: Mapping[str, str] = field(default_factory=dict)
    metric: str = ""
    at: str = ""
    margin: float | None = None
    reference_value: float | None = None
    test: str = ""
    min_seeds: int = 3
    name: str = ""

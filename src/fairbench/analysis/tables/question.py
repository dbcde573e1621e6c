"""The question of a user about a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Question:
    """The question of a user about a table: the arguments of `fairbench.verdicts`, which explains them.

    The keys of `columns` are `ROLES`.
    """

    optimizer: str = ""
    better: str = ""
    baselines: Sequence[str] = ()
    alpha: float = 0.05
    columns: Mapping[str, str] = field(default_factory=dict)
    metric: str = ""
    at: str = ""
    margin: float | None = None
    reference_value: float | None = None
    test: str = ""
    min_seeds: int = 3
    name: str = ""

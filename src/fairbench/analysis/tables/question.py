"""What is asked of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Question:
    """What is asked of a table, as `fairbench.verdicts` explains it; the keys of `columns` are `ROLES`."""

    optimizer: str = ""
    better: str = ""
    baselines: Sequence[str] = ()
    alpha: float = 0.05
    columns: Mapping[str, str] = field(default_factory=dict)
    metric: str = ""
    at: str = ""
    margin: float | None = None
    reference_value: float | None = None

"""The question of a user about a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairbench.common.errors import UsageError

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

    def assuming(self, answers: Mapping[str, Any]) -> "Question":
        """The question with further answers. Those for `columns` are added to the ones that the user gives."""
        columns = {**self.columns, **answers.get("columns", {})}
        return replace(self, **{**answers, "columns": columns})


class Unanswered(UsageError):
    """The table may mean several things, and the user must say which.

    Attributes:
        assumed: one possible answer as arguments of a `Question`, with which one may look for what else is missing.
    """

    def __init__(self, message: str, **assumed: Any) -> None:
        super().__init__(message)
        self.assumed = assumed

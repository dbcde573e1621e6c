"""The pairs of optimizers that a suite compares."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

ALL = "all"
"""Stands for every optimizer in `Compare.baselines`."""


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

"""The pairs of optimizers that a suite compares."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

ALL = "all"
"""Stands for every optimizer in `Compare.baselines`."""


@dataclass(frozen=True)
class Compare:
    """The pairs of a suite: every optimizer of one list with every baseline of the other. No pair occurs twice.

    Attributes:
        optimizers: the verdicts are on these; empty for all.
        baselines: what they are compared with; empty for the suite's reference, `["all"]` for every other one.
    """

    optimizers: list[str] = field(default_factory=list)
    baselines: list[str] = field(default_factory=list)

    def extended(self, names: Iterable[str]) -> "Compare":
        """The pairs with further optimizers, which are compared as the listed ones are."""
        if not self.optimizers:
            return self  # an empty list already stands for all
        distinct = dict.fromkeys([*self.optimizers, *names])
        return replace(self, optimizers=list(distinct))

    def pairs(self, names: Sequence[str], reference: str) -> list[tuple[str, str]]:
        """The optimizer and the baseline of each pair. Pairs with the reference as baseline come first."""
        optimizers = self.optimizers or names
        baselines: Sequence[str] = self.baselines or [reference]
        if ALL in self.baselines:
            baselines = names
        pairs: dict[frozenset[str], tuple[str, str]] = {}
        for baseline in sorted(baselines, key=lambda name: name != reference):
            for optimizer in optimizers:
                if optimizer != baseline:
                    pairs.setdefault(frozenset((optimizer, baseline)), (optimizer, baseline))
        return list(pairs.values())

"""A suite as it is resolved on a machine: the facts of its arenas and optimizers there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fairbench.common.coercion import build
from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.suites.checks import check_resolved
from fairbench.suites.loader import parse_suite
from fairbench.suites.schema import Suite
from fairbench.suites.search import Search, search_for


@dataclass(frozen=True)
class ResolvedArena:
    """An arena with its data and code on this machine.

    Attributes:
        fingerprint: sha256 of its data.
        code: the code that takes part with every optimizer, see `fairbench.runner.code_identity`.
        starts: sha256 of the initial weights of each seed, made in a process that has loaded no optimizer.
        shared: which examples are in two splits, in words; empty if none.
    """

    fingerprint: str
    code: Mapping[str, str]
    starts: Mapping[str, str]
    shared: str = ""


@dataclass(frozen=True)
class ResolvedSuite:
    """A suite as it is resolved on this machine; planning and reporting need only this.

    Attributes:
        program_revisions: the revision of a user's program when the study began, by the folder in which it runs, see
            `fairbench.runner.program_revisions`.
    """

    suite: Suite
    device: str
    arenas: Mapping[str, ResolvedArena]
    optimizers: Mapping[str, ResolvedOptimizer]
    environment: Mapping[str, str]
    program_revisions: Mapping[str, str] = field(default_factory=dict)

    def search(self, optimizer: str) -> Search:
        """The search for the settings of an optimizer."""
        return search_for(self.suite.sweep, self.optimizers[optimizer])

    def tuned(self, optimizer: str) -> bool:
        """Whether the learning rate of an optimizer is searched. A program without a rate leaves nothing to tune."""
        return self.optimizers[optimizer].lr is None

    def searched(self, optimizer: str) -> bool:
        """Whether an optimizer has a sweep."""
        return self.tuned(optimizer) and self.optimizers[optimizer].has_rate

    def to_json(self) -> dict[str, Any]:
        """The study as plain JSON values, which `from_json` reads."""
        return {**asdict(self), "suite": self.suite.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "ResolvedSuite":
        """Read the study that `to_json` wrote. Error messages name it `where`."""
        plain = build(dict[str, Any], value, ())
        suite = parse_suite(build(dict[str, Any], plain.get("suite"), ("suite",)), where)
        device = build(str, plain.get("device"), ("device",))
        arenas = build(dict[str, ResolvedArena], plain.get("arenas"), ("arenas",))
        optimizers = build(dict[str, ResolvedOptimizer], plain.get("optimizers"), ("optimizers",))
        if optimizers.keys() != suite.optimizers.keys() or arenas.keys() != suite.arenas.keys():
            raise ValueError("its optimizers or arenas are not those of its suite")
        for name, resolved in optimizers.items():
            check_resolved(("optimizers", name), suite.sweep, resolved)
        environment = build(dict[str, str], plain.get("environment", {}), ("environment",))
        revisions = build(dict[str, str], plain.get("program_revisions", {}), ("program_revisions",))
        return cls(
            suite=suite,
            device=device,
            arenas=arenas,
            optimizers=optimizers,
            environment=environment,
            program_revisions=revisions,
        )

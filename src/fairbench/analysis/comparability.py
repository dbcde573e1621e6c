"""Whether trials that share arena, stage and seed had the same start and the same data."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import Results, Run
from fairbench.common.grouping import grouped


@dataclass(frozen=True)
class HashCheck:
    """Whether all trials had the same start and the same data in one arena, stage and seed.

    Attributes:
        stage: "sweep" or "final".
        trials: number of trials that are compared.
        initial_weights: whether all had the initial weights of a process without an optimizer, or those of each other
            where a training program makes them; None where one did not show them, as in the next two.
        batches, noise: whether the batch orders and the noise of all trials agree that did not stop early.
    """

    arena: str
    stage: str
    seed: int
    trials: int
    initial_weights: bool | None
    batches: bool | None
    noise: bool | None

    @property
    def agrees(self) -> bool:
        """Whether none of the three is known to differ."""
        return False not in (self.initial_weights, self.batches, self.noise)


def hash_checks(analyses: Analyses) -> list[HashCheck]:
    """A check for each arena, stage and seed with records of at least two trials."""
    ended = analyses.results.select(lambda run: run.result is not None)
    groups = grouped(((run.arena, run.stage, run.seed), run) for run in ended)
    return [_hash_check(analyses.results, *key, runs) for key, runs in groups.items() if len(runs) > 1]


def _hash_check(results: Results, arena: str, stage: str, seed: int, runs: list[Run]) -> HashCheck:
    start = _agreement(runs, "initial_weights", results.study.arenas[arena].starts.get(str(seed)))
    complete = [run for run in runs if run.status == "finished"]
    return HashCheck(arena, stage, seed, len(runs), start, *(_agreement(complete, x) for x in ("batches", "noise")))


def _agreement(runs: list[Run], name: str, expected: str | None = None) -> bool | None:
    """Whether all trials have one hash, the expected one if there is one; None if one of them did not show it."""
    found = {run.hash(name) for run in runs} | {expected} - {None}
    return None if None in found else len(found) <= 1


Pairs = tuple[tuple[str, str, str], ...]
"""Comparisons, by arena, optimizer and baseline."""


@dataclass(frozen=True)
class Mixture:
    """Facts about machine and versions that differ between trials of some comparisons, sweeps included.

    Attributes:
        facts: each fact with its values, sorted.
        confounded: the comparisons in which the final trials of the two arms share no value: the effect of the
            optimizer cannot be separated from that of the environment.
    """

    facts: Mapping[str, tuple[str, ...]]
    comparisons: Pairs
    confounded: Pairs


def mixtures(analyses: Analyses) -> list[Mixture]:
    """The facts that differ, grouped by the comparisons that they concern."""
    results = analyses.results
    several = {fact: values for fact, values in results.environment.items() if len(values) > 1}
    groups = grouped((_concerned(results, fact), (fact, values)) for fact, values in several.items())
    return [Mixture(dict(facts), *concerned) for concerned, facts in groups.items() if concerned[0]]


def _concerned(results: Results, fact: str) -> tuple[Pairs, Pairs]:
    """The comparisons in which a fact differs between trials, and those of them in which it depends on the arm."""

    def values(arena: str, name: str, *stages: str) -> set[str]:
        runs = [run for run in results.arm(arena, name).trials if not stages or run.stage in stages]
        return {run.environment[fact] for run in runs if fact in run.environment}

    mixed = [x for x in results.study.suite.compared if len(values(*x[:2]) | values(x[0], x[2])) > 1]
    finals = [(x, values(*x[:2], "final"), values(x[0], x[2], "final")) for x in mixed]
    return tuple(mixed), tuple(x for x, ours, theirs in finals if ours and theirs and not ours & theirs)

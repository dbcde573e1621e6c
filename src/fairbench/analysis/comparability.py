"""Checks whether trials of one arena, stage and seed had the same start, data and environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import Results, Run
from fairbench.common.grouping import grouped
from fairbench.study.environments import CHANGED_FILES


@dataclass(frozen=True)
class HashCheck:
    """Whether all trials had the same start and the same data in one arena, stage and seed.

    Attributes:
        stage: "sweep" or "final".
        trials: number of trials that are compared.
        initial_weights: whether all had the initial weights that a process without an optimizer made. Weights of a
            training program are compared with each other.
        batches, noise: whether the batch orders and the noise agree, in all trials that did not stop early.

    The last three are None where a trial did not show its hash.
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
        """Whether initial weights, batches and noise all agree, as far as they are known."""
        return False not in (self.initial_weights, self.batches, self.noise)


def hash_checks(analyses: Analyses) -> list[HashCheck]:
    """The check of each arena, stage and seed with records of at least two trials."""
    ended = analyses.results.select(lambda run: run.result is not None)
    groups = grouped(((run.arena, run.stage, run.seed), run) for run in ended)
    checks = []
    for (arena, stage, seed), runs in groups.items():
        if len(runs) > 1:
            start = analyses.results.study.arenas[arena].starts.get(str(seed))
            checks.append(_hash_check(arena, stage, seed, runs, start))
    return checks


def _hash_check(arena: str, stage: str, seed: int, runs: list[Run], start: str | None) -> HashCheck:
    """The check of some trials of one arena, stage and seed.

    `start` is the hash of the initial weights of a process without an optimizer; None if it is not known.
    """
    # a trial that stopped early did not draw all batches and noise
    complete = [run for run in runs if run.status == "finished"]
    return HashCheck(
        arena=arena,
        stage=stage,
        seed=seed,
        trials=len(runs),
        initial_weights=_agreement(runs, "initial_weights", start),
        batches=_agreement(complete, "batches"),
        noise=_agreement(complete, "noise"),
    )


def _agreement(runs: list[Run], name: str, expected: str | None = None) -> bool | None:
    """Whether a hash is the same in all trials, and equal to the expected one if that is known.

    None if a trial did not show the hash.
    """
    hashes = {run.hash(name) for run in runs}
    if None in hashes:
        return None
    if expected is not None:
        hashes.add(expected)
    return len(hashes) <= 1


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
    facts_of_comparisons: dict[tuple[Pairs, Pairs], dict[str, tuple[str, ...]]] = {}
    for fact, values in results.environment.items():
        mixed = _mixed(results, fact)
        if mixed and fact != CHANGED_FILES:
            comparisons = (mixed, _confounded(results, fact, mixed))
            facts_of_comparisons.setdefault(comparisons, {})
            facts_of_comparisons[comparisons][fact] = values
    return [Mixture(facts, mixed, confounded) for (mixed, confounded), facts in facts_of_comparisons.items()]


def _mixed(results: Results, fact: str) -> Pairs:
    """The comparisons in which a fact differs between trials."""
    mixed = []
    for arena, optimizer, baseline in results.study.suite.compared:
        ours = _values(fact, results.arm(arena, optimizer).trials)
        theirs = _values(fact, results.arm(arena, baseline).trials)
        if len(ours | theirs) > 1:
            mixed.append((arena, optimizer, baseline))
    return tuple(mixed)


def _confounded(results: Results, fact: str, pairs: Pairs) -> Pairs:
    """The comparisons, among some, in which the final trials of the two arms share no value of a fact."""
    confounded = []
    for arena, optimizer, baseline in pairs:
        ours = _values(fact, _finals(results, arena, optimizer))
        theirs = _values(fact, _finals(results, arena, baseline))
        if ours and theirs and not ours & theirs:
            confounded.append((arena, optimizer, baseline))
    return tuple(confounded)


def _finals(results: Results, arena: str, optimizer: str) -> list[Run]:
    """The trials of stage 2 of an arm, at every setting."""
    return [run for run in results.arm(arena, optimizer).trials if run.stage == "final"]


def _values(fact: str, runs: Sequence[Run]) -> set[str]:
    """The values that a fact has in some trials."""
    return {run.environment[fact] for run in runs if fact in run.environment}

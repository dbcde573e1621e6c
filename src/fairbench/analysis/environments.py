"""Whether the trials of a comparison ran on the same ground."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fairbench.analysis.results import ArmResults, Results

Compared = tuple[str, str, str]
"""An arena, an optimizer and its baseline."""


@dataclass(frozen=True)
class Mixture:
    """Facts of machine and versions that are not the same in all trials, and the comparisons that this concerns.

    Attributes:
        facts: each fact with its values, in the order of the alphabet.
        comparisons: arena and pair of each comparison in which they differ between trials, sweeps included.
        confounded: those in which no final trial of one arm has a value that one of the other arm has: what the
            optimizer did cannot be told from what the machine did.
    """

    facts: Mapping[str, tuple[str, ...]]
    comparisons: tuple[Compared, ...]
    confounded: tuple[Compared, ...]


def mixtures(results: Results) -> list[Mixture]:
    """What differs, facts that concern the same comparisons together."""
    values = grounds(run.environment for run in results.select(lambda run: run.result is not None))
    groups: dict[tuple[tuple[Compared, ...], tuple[Compared, ...]], dict[str, tuple[str, ...]]] = {}
    for fact, several in values.items():
        if len(several) > 1:
            groups.setdefault(_concerned(results, fact), {})[fact] = several
    return [Mixture(facts, *concerned) for concerned, facts in groups.items() if concerned[0]]


def grounds(environments: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Each fact of machine and versions with all its values."""
    facts: dict[str, set[str]] = {}
    for environment in {
        id(environment): environment for environment in environments
    }.values():  # many records share one
        for fact, value in environment.items():
            facts.setdefault(fact, set()).add(value)
    return {fact: tuple(sorted(values)) for fact, values in facts.items()}


def _concerned(results: Results, fact: str) -> tuple[tuple[Compared, ...], tuple[Compared, ...]]:
    """The comparisons in which a fact differs between trials, and those of them in which it goes with the arm."""
    suite = results.study.suite
    mixed, confounded = [], []
    for arena in suite.arenas:
        for optimizer, baseline in suite.pairs:
            ours, theirs = results.arm(arena, optimizer), results.arm(arena, baseline)
            if len(_values(ours, fact) | _values(theirs, fact)) > 1:
                mixed.append((arena, optimizer, baseline))
                finals = _values(ours, fact, "final"), _values(theirs, fact, "final")
                if all(finals) and not finals[0] & finals[1]:
                    confounded.append((arena, optimizer, baseline))
    return tuple(mixed), tuple(confounded)


def _values(arm: ArmResults, fact: str, *stages: str) -> set[str]:
    runs = [run for run in arm.runs if run.stage in (stages or ("sweep", "final"))]
    return {run.environment[fact] for run in runs if fact in run.environment}

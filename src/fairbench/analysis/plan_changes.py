"""What differs between the plans of two studies, and between the machines and versions of their records."""

from collections.abc import Collection, Mapping
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.common.formatting import short_hash
from fairbench.common.hashing import digest
from fairbench.study.history import ABSENT, Change, changes, locked_settings
from fairbench.study.resolved_suite import ResolvedSuite

OWN = ("clip_norm", "schedule", "min_lr")
"""Keys of the training that an optimizer may have instead of the suite's."""


def plan_changes(a: Analyses, b: Analyses) -> list[Change]:
    """The differences of two plans: names that only one has, settings of what both have, and the environment."""
    first = a.results.study
    second = b.results.study
    differences = []
    differences += _only_one_has("arenas", first.suite.arenas, second.suite.arenas)
    differences += _only_one_has("optimizers", first.suite.optimizers, second.suite.optimizers)
    differences += changes(_settings(first, second), _settings(second, first))
    differences += changes(_environment(a), _environment(b), "environment")
    return differences


def _only_one_has(kind: str, ours: Collection[str], theirs: Collection[str]) -> list[Change]:
    """The change that lists the names that only one plan has; empty if both have the same names."""
    only_ours = ", ".join(name for name in ours if name not in theirs)
    only_theirs = ", ".join(name for name in theirs if name not in ours)
    if not only_ours and not only_theirs:
        return []
    return [Change(f"{kind} that only one has", only_ours or ABSENT, only_theirs or ABSENT)]


def _environment(analyses: Analyses) -> dict[str, str]:
    """The values of each fact about the machine and the versions, joined in one text."""
    return {fact: " / ".join(values) for fact, values in analyses.results.environment.items()}


def _settings(study: ResolvedSuite, other: ResolvedSuite) -> dict[str, Any]:
    """The settings on which the verdicts of a study depend, for the arenas and optimizers that both studies have.

    Code is replaced by a digest. The settings of an optimizer are those of its trials, with the keys in `OWN` from the
    entries of the suite. These entries are left out, since they would repeat the rest.
    """
    settings = locked_settings(study)
    suite = settings["suite"]
    arenas = _with_code_as_digest(settings["arenas"], other.suite.arenas)
    suite["arenas"] = {name: suite["arenas"][name] for name in arenas}
    optimizers = _with_code_as_digest(settings["optimizers"], other.suite.optimizers)
    suite_entries = suite.pop("optimizers")
    for name, optimizer in optimizers.items():
        for key in OWN:
            optimizer[key] = suite_entries[name][key]
    return {**settings, "arenas": arenas, "optimizers": optimizers}


def _with_code_as_digest(entries: Mapping[str, Mapping[str, Any]], kept: Collection[str]) -> dict[str, dict[str, Any]]:
    """The entries whose names are kept, with the first digits of a digest in place of their code."""
    shortened = {}
    for name, entry in entries.items():
        if name in kept:
            code = digest(entry["code"])
            shortened[name] = {**entry, "code": short_hash(code)}
    return shortened

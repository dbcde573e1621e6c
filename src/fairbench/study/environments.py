"""The environments that trials ran in (machine, versions, revision), and their differences."""

from collections.abc import Iterable, Mapping

CHANGED_FILES = "changed files"
"""The files in which a checkout differs from its revision. Trials are not compared by them."""


def environment_differences(environments: Iterable[Mapping[str, str]], here: Mapping[str, str]) -> str:
    """The differences of other environments from this one, `here`, a line for each fact; empty without a difference."""
    lines = []
    for fact, values in environment_values(environments).items():
        if fact in here and fact != CHANGED_FILES and values != (here[fact],):
            lines.append(f"  {fact}: {' / '.join(values)}; here {here[fact]}")
    return "\n".join(lines)


def environment_values(environments: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """All values of each fact of some environments, sorted."""
    distinct = {id(environment): environment for environment in environments}  # many records share one
    values_of: dict[str, set[str]] = {}
    for environment in distinct.values():
        for fact, value in environment.items():
            values_of.setdefault(fact, set()).add(value)
    return {fact: tuple(sorted(values)) for fact, values in values_of.items()}

"""The environments that trials ran in (machine, versions, revision), and their differences."""

from collections.abc import Iterable, Mapping

from fairbench.common.grouping import grouped


def environment_differences(environments: Iterable[Mapping[str, str]], here: Mapping[str, str]) -> str:
    """The facts of other environments that differ from this one, one per line; empty if none does."""
    return "\n".join(
        f"  {fact}: {' / '.join(values)}; here {here[fact]}"
        for fact, values in environment_values(environments).items()
        if fact in here and values != (here[fact],)
    )


def environment_values(environments: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Each fact of the environments with all its values, sorted."""
    distinct = {id(environment): environment for environment in environments}  # many records share one
    facts = grouped(fact for environment in distinct.values() for fact in environment.items())
    return {fact: tuple(sorted({*values})) for fact, values in facts.items()}

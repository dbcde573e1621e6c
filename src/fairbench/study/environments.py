"""What machine and versions trials ran on, and whether they are the same."""

from collections.abc import Iterable, Mapping


def mixing(environments: Iterable[Mapping[str, str]], here: Mapping[str, str]) -> str:
    """What others have of machine and versions that is not here, a line for each fact; empty if all is the same."""
    found = grounds(environments)
    return "\n".join(
        f"  {fact}: {' / '.join(values)}; here {here[fact]}"
        for fact, values in found.items()
        if fact in here and values != (here[fact],)
    )


def grounds(environments: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Each fact of machine and versions with all its values."""
    facts: dict[str, set[str]] = {}
    for environment in {
        id(environment): environment for environment in environments
    }.values():  # many records share one
        for fact, value in environment.items():
            facts.setdefault(fact, set()).add(value)
    return {fact: tuple(sorted(values)) for fact, values in facts.items()}

"""The size of an installation: of each dependency, and with what it needs itself.

    python benchmarks/install_size.py [--csv FILE]

Sizes are of the files that the metadata of the installed distributions list, in millions of bytes. `alone` is the
distribution, `adds` what the extra would be smaller by without it.
"""

import argparse
import sys
from importlib.metadata import Distribution, distribution, requires
from pathlib import Path

from csv_files import write_csv
from packaging.requirements import Requirement

PACKAGE = "psilogic-fairbench"
EXTRAS = ("bench", "data", "zoo", "ray")


def wanted(name: str, extras: frozenset[str]) -> list[Requirement]:
    """What a distribution requires here, with some of its extras."""
    requirements = [Requirement(text) for text in requires(name) or []]
    return [requirement for requirement in requirements if is_needed(requirement, extras or frozenset({""}))]


def is_needed(requirement: Requirement, extras: frozenset[str]) -> bool:
    """Whether a requirement holds here, for any of some extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def closure(requirements: list[Requirement]) -> dict[str, Distribution]:
    """The distributions that requirements need, directly or not."""
    found: dict[str, Distribution] = {}
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        installed = distribution(requirement.name)
        if installed.name not in found:
            found[installed.name] = installed
            waiting += wanted(requirement.name, frozenset(requirement.extras))
    return found


def megabytes(installed: Distribution) -> float:
    """The files of a distribution."""
    size = 0
    for file in installed.files or []:
        path = Path(str(file.locate()))
        if path.exists():
            size += path.stat().st_size
    return size / 1e6


def rows(extra: str) -> list[dict[str, object]]:
    """A row for each dependency of the package itself, or of one of its extras, and one for all."""
    base: list[Requirement] = []
    listed = wanted(PACKAGE, frozenset())
    if extra:
        base = listed
        names_of_base = {requirement.name for requirement in base}
        with_extra = wanted(PACKAGE, frozenset({extra}))
        listed = [requirement for requirement in with_extra if requirement.name not in names_of_base]
    everything = closure(base + listed)
    found: list[dict[str, object]] = []
    for requirement in listed:
        others = closure(base + [other for other in listed if other is not requirement])
        added = 0.0
        for name, installed in everything.items():
            if name not in others:
                added += megabytes(installed)
        alone = megabytes(distribution(requirement.name))
        found.append(row(extra, requirement.name, f"{alone:.0f}", f"{added:.0f}"))
    total = sum(map(megabytes, everything.values()))
    found.append(row(extra, "all, with torch", "", f"{total:.0f}"))
    return found


def row(extra: str, name: str, alone: str, adds: str) -> dict[str, object]:
    """A line of the table."""
    return {"extra": extra, "distribution": name, "alone": alone, "adds": adds}


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    table = []
    for extra in ("", *EXTRAS):
        table += rows(extra)
    if arguments.csv:
        write_csv(table, arguments.csv)
    for line in table:
        words = [f"{value:>24}" for value in line.values()]
        sys.stdout.write("  ".join(words) + "\n")


if __name__ == "__main__":
    main()

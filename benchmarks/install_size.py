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
    all_of_it = [Requirement(text) for text in requires(name) or []]
    contexts = [{"extra": extra} for extra in (extras or {""})]
    return [x for x in all_of_it if x.marker is None or any(x.marker.evaluate(context) for context in contexts)]


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
    paths = [Path(str(file.locate())) for file in installed.files or []]
    return sum(path.stat().st_size for path in paths if path.exists()) / 1e6


def rows(extra: str) -> list[dict[str, object]]:
    """A row for each dependency of the package itself, or of one of its extras, and one for all."""
    base = wanted(PACKAGE, frozenset())
    listed = wanted(PACKAGE, frozenset({extra})) if extra else base
    listed = [x for x in listed if extra == "" or x.name not in {y.name for y in base}]
    everything = closure(base + listed)
    found: list[dict[str, object]] = []
    for requirement in listed:
        others = closure(base * bool(extra) + [x for x in listed if x is not requirement])
        added = sum(megabytes(x) for name, x in everything.items() if name not in others)
        alone = megabytes(distribution(requirement.name))
        found.append(
            {"extra": extra, "distribution": requirement.name, "alone": f"{alone:.0f}", "adds": f"{added:.0f}"}
        )
    total = f"{sum(map(megabytes, everything.values())):.0f}"
    return [*found, {"extra": extra, "distribution": "all, with torch", "alone": "", "adds": total}]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    table = [row for extra in ("", *EXTRAS) for row in rows(extra)]
    if arguments.csv:
        write_csv(table, arguments.csv)
    for row in table:
        sys.stdout.write("  ".join(f"{value:>24}" for value in row.values()) + "\n")

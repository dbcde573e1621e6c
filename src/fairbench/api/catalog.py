"""What fairbench has by name: suites, optimizers and arenas."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fairbench.arenas.registry import ARENAS, known_arenas
from fairbench.common.terminal import width
from fairbench.data.datasets.registry import DATASETS
from fairbench.optimizers.registry import known_optimizers
from fairbench.suites.loader import load_suite, suite_names

if TYPE_CHECKING:
    from fairbench.report.table import Table


@dataclass(frozen=True)
class SuiteEntry:
    """A suite that fairbench includes.

    Attributes:
        data: titles of its data sets.
    """

    name: str
    description: str
    arenas: tuple[str, ...]
    optimizers: tuple[str, ...]
    data: tuple[str, ...]


@dataclass(frozen=True)
class OptimizerEntry:
    """A known optimizer.

    Attributes:
        factory: what makes it, as `module:Class`.
    """

    name: str
    title: str
    factory: str


@dataclass(frozen=True)
class ArenaEntry:
    """A known arena.

    Attributes:
        title: what it trains; of an arena of another package, `module:Class`.
        metrics: the metrics that it measures; none is known before an arena of another package is loaded.
    """

    name: str
    title: str
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class DataEntry:
    """A known data set.

    Attributes:
        kind: kind of the arenas that read it.
    """

    name: str
    title: str
    kind: str


@dataclass(frozen=True)
class Catalog:
    """Everything that fairbench has by name."""

    suites: Sequence[SuiteEntry]
    arenas: Sequence[ArenaEntry]
    data: Sequence[DataEntry]
    optimizers: Sequence[OptimizerEntry]

    def to_json(self) -> dict[str, Any]:
        """The entries of each kind."""
        return asdict(self)

    def __str__(self) -> str:
        """A paragraph for each name, in lines that fit the terminal."""
        own = "path/to/file.py:Class or module:Class, in --{} or as `{}` in a suite file"
        lines = ["suites"]
        for suite in self.suites:
            lists = {"arenas": ", ".join(suite.arenas), "optimizers": ", ".join(suite.optimizers)}
            lists["data"] = "; ".join(suite.data)
            lines += [_entry(suite.name, suite.description), *(_entry("", f"{key}: {x}") for key, x in lists.items())]
        metrics = {x.name: f"; metrics: {', '.join(x.metrics)}" for x in self.arenas if x.metrics}
        lines += ["arenas", *(_entry(x.name, f"{x.title}{metrics.get(x.name, '')}") for x in self.arenas)]
        lines += [_entry("custom", own.format("arenas", "task"))]
        lines += ["data", *(_entry(x.name, f"{x.title}; for arenas of {x.kind}") for x in self.data)]
        lines += ["optimizers", *(_entry(x.name, f"{x.title} ({x.factory})") for x in self.optimizers)]
        return "\n".join([*lines, _entry("custom", own.format("add-optimizer", "factory"))])


def _entry(name: str, text: str) -> str:
    first, later = f"  {name:13} ", " " * 16
    return textwrap.fill(text, max(width(), 40), initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def catalog() -> Catalog:
    """Everything that fairbench has by name."""
    data = [DataEntry(name, source.title, source.kind) for name, source in DATASETS.items()]
    return Catalog(_suites(), _arenas(), data, _optimizers())


def list_suites() -> Table[SuiteEntry]:
    """The suites that fairbench includes.

    >>> [suite.name for suite in fb.list_suites()][:3]
    ['ablation', 'ladder', 'ladder-paper']
    """
    return _table(SuiteEntry, _suites())


def list_optimizers() -> Table[OptimizerEntry]:
    """The optimizers that fairbench and installed packages know by name.

    >>> "AdamW" in [optimizer.name for optimizer in fb.list_optimizers()]
    True
    """
    return _table(OptimizerEntry, _optimizers())


def list_arenas() -> Table[ArenaEntry]:
    """The arenas that fairbench and installed packages know by name.

    >>> [arena.name for arena in fb.list_arenas()][:4]
    ['gpt', 'vit', 'resnet', 'ddpm']
    """
    return _table(ArenaEntry, _arenas())


def _table(kind: type, entries: Sequence[Any]) -> Table[Any]:
    from fairbench.report.table import table_of  # slow to import, and not needed by `fairbench list`

    return table_of(kind, entries)


def _suites() -> list[SuiteEntry]:
    entries = []
    for suite in map(load_suite, suite_names()):
        data = tuple(sorted({DATASETS[x["source"]].title for x in suite.data_tables if "source" in x}))
        entries.append(SuiteEntry(suite.name, suite.description, tuple(suite.arenas), tuple(suite.optimizers), data))
    return entries


def _optimizers() -> list[OptimizerEntry]:
    return [OptimizerEntry(name, facts.title, facts.factory) for name, facts in known_optimizers().items()]


def _arenas() -> list[ArenaEntry]:
    entries = [ArenaEntry(name, facts.title, tuple(facts.metrics)) for name, facts in ARENAS.items()]
    known = known_arenas()
    return [*entries, *(ArenaEntry(name, known[name], ()) for name in sorted(known.keys() - ARENAS.keys()))]

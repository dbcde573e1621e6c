"""What fairbench has by name: suites, optimizers and arenas."""

import textwrap
from dataclasses import dataclass
from typing import Any

from fairbench.arenas.registry import ARENAS, known_arenas
from fairbench.common.terminal import width
from fairbench.data.datasets.registry import DATASETS
from fairbench.optimizers.resolve import known_optimizers
from fairbench.report.table import Table, table_of
from fairbench.suites.loader import load_suite, suite_names


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

    suites: Table[SuiteEntry]
    arenas: Table[ArenaEntry]
    data: Table[DataEntry]
    optimizers: Table[OptimizerEntry]

    def to_json(self) -> dict[str, Any]:
        """The rows of each table."""
        return {name: table.to_dicts() for name, table in vars(self).items()}

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
    data = table_of(DataEntry, [DataEntry(name, source.title, source.kind) for name, source in DATASETS.items()])
    return Catalog(list_suites(), list_arenas(), data, list_optimizers())


def list_suites() -> Table[SuiteEntry]:
    """The suites that fairbench includes.

    >>> [suite.name for suite in fb.list_suites()][:3]
    ['ablation', 'ladder', 'ladder-paper']
    """
    rows = []
    for suite in map(load_suite, suite_names()):
        data = tuple(sorted({DATASETS[x["source"]].title for x in suite.data_tables if "source" in x}))
        rows.append(SuiteEntry(suite.name, suite.description, tuple(suite.arenas), tuple(suite.optimizers), data))
    return table_of(SuiteEntry, rows)


def list_optimizers() -> Table[OptimizerEntry]:
    """The optimizers that fairbench and installed packages know by name.

    >>> "AdamW" in [optimizer.name for optimizer in fb.list_optimizers()]
    True
    """
    rows = [OptimizerEntry(name, facts.title, facts.factory) for name, facts in known_optimizers().items()]
    return table_of(OptimizerEntry, rows)


def list_arenas() -> Table[ArenaEntry]:
    """The arenas that fairbench and installed packages know by name.

    >>> [arena.name for arena in fb.list_arenas()][:4]
    ['gpt', 'vit', 'resnet', 'ddpm']
    """
    rows = [ArenaEntry(name, facts.title, tuple(facts.metrics)) for name, facts in ARENAS.items()]
    others = sorted(known_arenas().keys() - ARENAS.keys())
    return table_of(ArenaEntry, [*rows, *(ArenaEntry(name, known_arenas()[name], ()) for name in others)])

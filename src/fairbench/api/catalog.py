"""The suites, arenas, data sets and optimizers that fairbench knows by name."""

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

OWN = "path/to/file.py:Class or module:Class, in {option} or as `{key}` in a suite file"
"""The ways in which a user names an arena or an optimizer of their own."""


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
        factory: what makes it, such as `module:Class`.
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
        paragraphs = ["suites"]
        for suite in self.suites:
            paragraphs.append(_paragraph(suite.name, suite.description))
            paragraphs.append(_paragraph("", f"arenas: {', '.join(suite.arenas)}"))
            paragraphs.append(_paragraph("", f"optimizers: {', '.join(suite.optimizers)}"))
            paragraphs.append(_paragraph("", f"data: {'; '.join(suite.data)}"))
        paragraphs.append("arenas")
        for arena in self.arenas:
            text = arena.title
            if arena.metrics:
                text += f"; metrics: {', '.join(arena.metrics)}"
            paragraphs.append(_paragraph(arena.name, text))
        paragraphs.append(_paragraph("custom", OWN.format(option="--arenas", key="task")))
        paragraphs.append("data")
        for dataset in self.data:
            paragraphs.append(_paragraph(dataset.name, f"{dataset.title}; for arenas of {dataset.kind}"))
        paragraphs.append("optimizers")
        for optimizer in self.optimizers:
            paragraphs.append(_paragraph(optimizer.name, f"{optimizer.title} ({optimizer.factory})"))
        paragraphs.append(_paragraph("custom", OWN.format(option="--add-optimizer", key="factory")))
        return "\n".join(paragraphs)


def _paragraph(name: str, text: str) -> str:
    """A name with a text about it. The lines fit the terminal."""
    return textwrap.fill(
        text,
        width=max(width(), 40),
        initial_indent=f"  {name:13} ",
        subsequent_indent=" " * 16,
        break_on_hyphens=False,
    )


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
    """Entries of one kind as a table."""
    from fairbench.report.table import table_of  # slow to import, and not needed by `fairbench list`

    return table_of(kind, entries)


def _suites() -> list[SuiteEntry]:
    """The suites that fairbench includes."""
    entries = []
    for name in suite_names():
        suite = load_suite(name)
        sources = {table["source"] for table in suite.data_tables if "source" in table}
        titles = {DATASETS[source].title for source in sources}
        entry = SuiteEntry(
            name=suite.name,
            description=suite.description,
            arenas=tuple(suite.arenas),
            optimizers=tuple(suite.optimizers),
            data=tuple(sorted(titles)),
        )
        entries.append(entry)
    return entries


def _optimizers() -> list[OptimizerEntry]:
    """The optimizers that fairbench and installed packages know by name."""
    return [OptimizerEntry(name, facts.title, facts.factory) for name, facts in known_optimizers().items()]


def _arenas() -> list[ArenaEntry]:
    """The arenas of fairbench, then those of installed packages."""
    entries = [ArenaEntry(name, facts.title, tuple(facts.metrics)) for name, facts in ARENAS.items()]
    known = known_arenas()
    for name in sorted(known):
        if name not in ARENAS:
            entries.append(ArenaEntry(name, title=known[name], metrics=()))
    return entries

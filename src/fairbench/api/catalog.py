"""What fairbench has by name: suites, optimizers and arenas."""

from dataclasses import dataclass

from fairbench.arenas.registry import ARENAS, known_arenas
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


def suites() -> Table[SuiteEntry]:
    """The suites that fairbench includes.

    >>> [suite.name for suite in fb.suites()][:3]
    ['ablation', 'ladder', 'ladder-paper']
    """
    loaded = {name: load_suite(name) for name in suite_names()}
    rows = [
        SuiteEntry(
            name,
            suite.description,
            tuple(suite.arenas),
            tuple(suite.optimizers),
            tuple(sorted({DATASETS[table["source"]].title for table in suite.data_tables})),
        )
        for name, suite in loaded.items()
    ]
    return table_of(SuiteEntry, rows)


def optimizers() -> Table[OptimizerEntry]:
    """The optimizers that fairbench and installed packages know by name.

    >>> "AdamW" in [optimizer.name for optimizer in fb.optimizers()]
    True
    """
    rows = [OptimizerEntry(name, facts.title, facts.factory) for name, facts in known_optimizers().items()]
    return table_of(OptimizerEntry, rows)


def arenas() -> Table[ArenaEntry]:
    """The arenas that fairbench and installed packages know by name.

    >>> [arena.name for arena in fb.arenas()][:4]
    ['gpt', 'vit', 'resnet', 'ddpm']
    """
    rows = [ArenaEntry(name, facts.title, tuple(facts.metrics)) for name, facts in ARENAS.items()]
    others = sorted(known_arenas().keys() - ARENAS.keys())
    return table_of(ArenaEntry, [*rows, *(ArenaEntry(name, known_arenas()[name], ()) for name in others)])


def data() -> Table[DataEntry]:
    """The data sets that suites can name."""
    return table_of(DataEntry, [DataEntry(name, source.title, source.kind) for name, source in DATASETS.items()])

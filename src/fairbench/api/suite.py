"""A suite for Python: loaded, changed, planned and saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomli_w
from markupsafe import Markup

from fairbench.api.optimizer import OptimizerLike, UserOptimizer, user_optimizer
from fairbench.api.plan import Estimate, planned
from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.common.formatting import plural, some
from fairbench.common.hashing import without_defaults
from fairbench.data.dataset_config import check_prepared, configs_of
from fairbench.report.table import Table
from fairbench.runner.devices import device_kind, device_slots
from fairbench.study.target import target_in
from fairbench.suites import schema
from fairbench.suites.loader import changed, load_suite, suite_names
from fairbench.suites.overrides import Overrides


@dataclass(frozen=True, repr=False)
class Suite:
    """A suite: arenas, optimizers, and how they are tuned, trained and compared. Every change gives a new one.

    Attributes:
        content: the suite as fairbench reads it; `docs/suite-files.md` explains its keys.
        added: the optimizers that `with_optimizer` has added, by name.

    >>> fb.Suite.load("smoke")
    <Suite smoke: 2 optimizers (AdamW, PsiLogic) in 1 arena (vit), 2 seeds>
    """

    content: schema.Suite
    added: Mapping[str, UserOptimizer] = field(default_factory=dict)

    @classmethod
    def load(cls, name_or_path: str | Path) -> Suite:
        """Read a suite by its name, or from a file that ends in .toml.

        Raises:
            UsageError: there is no such suite, or something in it is wrong.

        >>> fb.Suite.load("mini").name
        'mini'
        """
        return cls(load_suite(str(name_or_path)))

    @property
    def name(self) -> str:
        """Name of the suite."""
        return self.content.name

    def replace(
        self,
        *,
        arenas: Sequence[str] | None = None,
        optimizers: Sequence[str] | None = None,
        reference: str = "",
        seeds: int | Iterable[int] | None = None,
        steps: int | None = None,
        lr_grid: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> Suite:
        """The suite with changes, as the options of `fairbench run` make them.

        Args:
            arenas: only these; also `path/to/file.py:Class`.
            optimizers: only these; also names that fairbench knows.
            reference: the optimizer with which all others are then compared, unless the suite compares every pair.
            seeds: final seeds, or their number.
            steps: steps of final trials; the other lengths keep their shares.
            lr_grid: a grid of learning rates, such as "1e-4:1e-1:7".
            settings: values by dotted keys, such as {"training.clip_norm": 0, "AdamW.weight_decay": 0.1}.

        Raises:
            UsageError: something is unknown, or does not fit.

        >>> suite = fb.Suite.load("mini").replace(arenas=["vit"], seeds=range(3, 8), settings={"AdamW.eps": 1e-6})
        >>> suite.content.final.seeds, suite.content.optimizers["AdamW"].options["eps"]
        ([3, 4, 5, 6, 7], 1e-06)
        """
        if seeds is not None and not isinstance(seeds, int):
            seeds = list(seeds)
        overrides = Overrides(
            arenas=arenas,
            optimizers=optimizers,
            reference=reference,
            seeds=seeds,
            steps=steps,
            lr_grid=lr_grid,
            settings=settings or {},
        )
        return replace(self, content=changed(self.content, overrides))

    def with_optimizer(self, optimizer: OptimizerLike, name: str | None = None) -> Suite:
        """The suite with a further optimizer, which is compared as those that the suite compares.

        Args:
            optimizer: a name that fairbench knows, `module:Class`, `path/to/file.py:Class`, or a class, which may be
                defined in a notebook.
            name: its name in tables; None for that of the class.

        Raises:
            UsageError: trials cannot load it, or the suite has an optimizer of that name.

        >>> suite = fb.Suite.load("mini").with_optimizer("own_optimizers.py:Signs", name="SignSGD")
        >>> suite.content.optimizers["SignSGD"].factory
        'own_optimizers.py:Signs'
        """
        added = user_optimizer(optimizer, name)
        if added.name in self.content.optimizers:
            raise UsageError(f"{self.name} has an optimizer {added.name!r} already; give this one another name=")
        optimizers = {**self.content.optimizers, added.name: added.plan}
        compare = self.content.compare.extended([added.name])
        content = replace(self.content, optimizers=optimizers, compare=compare)
        return Suite(changed(content, Overrides()), {**self.added, added.name: added})

    def placed(self, folder: Path) -> schema.Suite:
        """The suite with optimizers that trials can load. Classes of a notebook are written below a folder.

        >>> fb.Suite.load("mini").placed(Path("results/mine")) == fb.Suite.load("mini").content
        True
        """
        plans = dict(self.content.optimizers)
        for name, plan in plans.items():
            if name in self.added:
                loadable = self.added[name].placed(folder)
                plans[name] = replace(plan, factory=loadable.factory)
        return replace(self.content, optimizers=plans)

    def save(self, path: str | Path) -> Path:
        """Write a suite file, which loads to the same suite under the name of the file.

        Args:
            path: the file, which must end in .toml. Classes of a notebook are written to `optimizers/` next to it.

        Returns:
            The path.

        Raises:
            UsageError: the name is that of a suite of fairbench, or the file cannot be written.

        >>> path = fb.Suite.load("mini").replace(seeds=3).save("short.toml")
        >>> len(fb.Suite.load(path).content.final.seeds)
        3
        """
        file = Path(path)
        included = suite_names()
        if file.suffix != ".toml" or file.stem in included:
            raise UsageError(f"{file}: a suite file ends in .toml and has none of the names {', '.join(included)}")
        arenas = {name: replace(arena, facts=None) for name, arena in self.content.arenas.items()}  # its class has them
        content = replace(self.placed(file.parent), name=file.stem, arenas=arenas)
        tables = _without_none(without_defaults(content))
        write_atomically(file, tomli_w.dumps(tables))
        return file

    def plan(
        self,
        directory: str | Path | None = None,
        *,
        workers: int | None = None,
        device: str = "auto",
        data_root: str | Path = "data",
    ) -> Estimate:
        """The trials of a run, the time and disk space that they take, and the differences that they can detect.

        A few steps of each optimizer are taken to measure the time; nothing of the study is written.

        Args:
            directory: the directory of the study, whose records tell how much seeds differ. None for a new study.
            workers: trials at a time, see `fb.run`.
            device: where trials run, see `fb.run`.
            data_root: folder of the prepared data.

        Raises:
            UsageError: an optimizer or data are missing, or the directory holds another suite.

        >>> fb.Suite.load("tiny.toml").plan().arenas.to_dicts()[0]["sweep_trials"]
        6
        """
        with TemporaryDirectory() as folder:
            study = Path(directory or f"{folder}/none")
            target = target_in(study, self.content)
            kind = device_kind(device, target.history)
            slots = device_slots(kind, workers, str(data_root))
            check_prepared(configs_of(self.content.data_tables), Path(data_root))
            loadable = self.placed(Path(directory or folder))
            return planned(replace(target, suite=loadable), slots)

    def _repr_html_(self) -> str:
        """The suite for a notebook, with a row for each arena."""
        keys = ("metric", "margin", "sweep_steps", "steps", "batch_size")
        rows = []
        for name, arena in self.content.arenas.items():
            row = {"arena": name}
            for key in keys:
                row[key] = getattr(arena, key)
            rows.append(row)
        title = Markup("<p>{}</p>").format(repr(self)[1:-1])
        table = Table(rows, ("arena", *keys))
        return str(title) + table._repr_html_()

    def __repr__(self) -> str:
        suite = self.content
        optimizers = f"{plural(len(suite.optimizers), 'optimizer')} ({some(list(suite.optimizers))})"
        arenas = f"{plural(len(suite.arenas), 'arena')} ({some(list(suite.arenas))})"
        return f"<Suite {self.name}: {optimizers} in {arenas}, {suite.final.in_words}>"


def as_suite(suite: Suite | str) -> Suite:
    """The suite itself, or the suite with a name or in a file."""
    if isinstance(suite, Suite):
        return suite
    return Suite.load(suite)


def _without_none(value: Any) -> Any:
    """Tables, without the keys whose value is None: TOML has no None."""
    if not isinstance(value, dict):
        return value
    return {key: _without_none(part) for key, part in value.items() if part is not None}

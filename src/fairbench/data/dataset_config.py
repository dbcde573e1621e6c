"""A dataset with every option of its preparation, and the folder of its prepared arrays."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.hashing import digest
from fairbench.data.datasets.registry import DATASETS, Dataset
from fairbench.data.formats.source_files import SourceFile
from fairbench.data.prepared import Prepared, read_folder

PREPARED = {name: dataset for name, dataset in DATASETS.items() if dataset.module}
"""The datasets that are prepared before they are read."""


@dataclass(frozen=True)
class DatasetConfig:
    """A dataset with every option of its preparation; `dataset_config` makes it."""

    dataset: str
    options: Mapping[str, Any]

    @property
    def info(self) -> Dataset:
        return DATASETS[self.dataset]

    @property
    def archives(self) -> list[SourceFile]:
        return [file for file in self.info.archives if file.when.items() <= self.options.items()]

    @property
    def hub_files(self) -> list[SourceFile]:
        return [*self.info.hub_files] or self.archives

    @property
    def user_path(self) -> Path | None:
        """The file or folder of a user's data; None for a published dataset."""
        return Path(self.options["path"]).expanduser() if "path" in self.options else None

    @property
    def label(self) -> str:
        """Name and options, as messages show them."""
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"{self.dataset} ({options})" if options else self.dataset

    def folder(self, data_root: Path) -> Path:
        """The folder of the prepared arrays, named by the options; values that are no plain words by their hash."""
        values = [str(value) for value in self.options.values()]
        words = [value if re.fullmatch(r"\w{1,20}", value, re.ASCII) else digest(value)[:12] for value in values]
        return data_root / "prepared" / "-".join([self.dataset, *words])

    def open(self, data_root: Path, check_content: bool = False) -> Prepared:
        """The prepared arrays, with `check_content` unchanged since; an error has the command to prepare them."""
        try:
            prepared = read_folder(self.folder(data_root), self.options)
            if check_content:
                prepared.check_content()
            return prepared
        except UsageError as error:
            raise UsageError(f"{error}; {self.repair(data_root)}") from error

    def repair(self, data_root: Path) -> str:
        """How to prepare the dataset where it is missing or damaged, as an error says it."""
        folder, flags = self.folder(data_root), []
        with suppress(UsageError):
            manifest = read_folder(folder).manifest
            flags = ["--again", *([] if manifest["verified"] or self.user_path else ["--unverified"])]
        return f"{self.label} is prepared by: {self.command('download', data_root, *flags)}"

    def by_hand(self, data_root: Path) -> str:
        """How to prepare the dataset from its authors' archives, as an error says it."""
        names, folder = [archive.name for archive in self.archives], data_root / self.dataset
        return (
            f"get {' and '.join(names)} from {self.info.page}, put {'them' if names[1:] else 'it'} into {data_root} "
            f"or {folder} and run: {self.command('prepare', data_root)}"
        )

    def command(self, verb: str, data_root: Path, *flags: str) -> str:
        given = {name: value for name, value in self.options.items() if value != self.info.options[name].default}
        settings = [shlex.quote(f"{name}={json.dumps(value, ensure_ascii=False)}") for name, value in given.items()]
        words = ["--data-root", shlex.quote(str(data_root)), "--dataset", self.dataset]
        return " ".join(["fairbench data", verb, *words, *(f"--set {setting}" for setting in settings), *flags])


def dataset_config(dataset: str, options: Mapping[str, Any] | None = None) -> DatasetConfig:
    """The configuration of a dataset; omitted options have their defaults."""
    declared = PREPARED[dataset].options
    complete = {name: (options or {}).get(name, option.default) for name, option in declared.items()}
    for name, value in complete.items():
        if value is None:
            example = f'data = {{ source = "{dataset}", {name} = ... }}'
            raise UsageError(f"{dataset} needs the option {name}: use --set, or a suite whose arena has {example}")
        if complaint := declared[name].complaint(value):
            raise UsageError(f"option {name} of {dataset} {complaint}")
    return DatasetConfig(dataset, complete)


def configs_of(tables: Iterable[Mapping[str, Any]]) -> list[DatasetConfig]:
    """The datasets of the arenas' tables `data`, each once; embedded ones need no preparation."""
    configs = [dataset_config(table["source"], table) for table in tables if table.get("source") in PREPARED]
    return [config for i, config in enumerate(configs) if config not in configs[:i]]


def check_prepared(configs: Iterable[DatasetConfig], data_root: Path) -> None:
    """Raise `UsageError`, with the commands to prepare them, unless all datasets are prepared and unchanged."""
    missing = []
    for config in configs:
        try:
            config.open(data_root, check_content=True)
        except UsageError as error:
            missing.append(str(error))
    if missing:
        raise UsageError("\n  ".join(missing))

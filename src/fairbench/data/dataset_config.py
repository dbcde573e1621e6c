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
PLAIN_WORD = re.compile(r"\w{1,20}", re.ASCII)
"""The values of options that can be part of a folder's name."""


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
        if "path" not in self.options:
            return None
        return Path(self.options["path"]).expanduser()

    @property
    def label(self) -> str:
        """Name and options, as messages show them."""
        if not self.options:
            return self.dataset
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"{self.dataset} ({options})"

    def folder(self, data_root: Path) -> Path:
        """The folder of the prepared arrays: its name has the value of each option, or the value's hash."""
        words = [self.dataset]
        for value in self.options.values():
            text = str(value)
            if not PLAIN_WORD.fullmatch(text):
                text = digest(text)[:12]
            words.append(text)
        return data_root / "prepared" / "-".join(words)

    def open(self, data_root: Path, check_content: bool = False) -> Prepared:
        """The prepared arrays.

        Args:
            data_root: the folder of prepared data.
            check_content: also check that no file was changed since.

        Raises:
            UsageError: they are missing, damaged or changed; the message has the command to prepare them.
        """
        try:
            prepared = read_folder(self.folder(data_root), self.options)
            if check_content:
                prepared.check_content()
            return prepared
        except UsageError as error:
            raise UsageError(f"{error}; {self.repair(data_root)}") from error

    def repair(self, data_root: Path) -> str:
        """How to prepare the dataset where it is missing or damaged, as an error says it."""
        flags = []
        with suppress(UsageError):
            manifest = read_folder(self.folder(data_root)).manifest
            flags.append("--again")
            if not manifest["verified"] and not self.user_path:
                flags.append("--unverified")
        return f"{self.label} is prepared by: {self.command('download', data_root, *flags)}"

    def by_hand(self, data_root: Path) -> str:
        """How to prepare the dataset from its authors' archives, as an error says it."""
        names = [archive.name for archive in self.archives]
        folder = data_root / self.dataset
        pronoun = "them" if len(names) > 1 else "it"
        return (
            f"get {' and '.join(names)} from {self.info.page}, put {pronoun} into {data_root} "
            f"or {folder} and run: {self.command('prepare', data_root)}"
        )

    def command(self, verb: str, data_root: Path, *flags: str) -> str:
        """The command line of `fairbench data` with a verb, for this dataset and its options."""
        words = ["fairbench data", verb, "--data-root", shlex.quote(str(data_root)), "--dataset", self.dataset]
        for name, value in self.options.items():
            if value != self.info.options[name].default:
                setting = f"{name}={json.dumps(value, ensure_ascii=False)}"
                words.append(f"--set {shlex.quote(setting)}")
        words += flags
        return " ".join(words)


def dataset_config(dataset: str, options: Mapping[str, Any] | None = None) -> DatasetConfig:
    """The configuration of a dataset; omitted options have their defaults."""
    declared = PREPARED[dataset].options
    given = options or {}
    complete = {}
    for name, option in declared.items():
        value = given.get(name, option.default)
        if value is None:
            example = f'data = {{ source = "{dataset}", {name} = ... }}'
            raise UsageError(f"{dataset} needs the option {name}: use --set, or a suite whose arena has {example}")
        complaint = option.complaint(value)
        if complaint:
            raise UsageError(f"option {name} of {dataset} {complaint}")
        complete[name] = value
    return DatasetConfig(dataset, complete)


def configs_of(tables: Iterable[Mapping[str, Any]]) -> list[DatasetConfig]:
    """The datasets of the arenas' tables `data`, each once; embedded ones need no preparation."""
    configs: list[DatasetConfig] = []
    for table in tables:
        source = table.get("source")
        if source not in PREPARED:
            continue
        config = dataset_config(source, table)
        if config not in configs:
            configs.append(config)
    return configs


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

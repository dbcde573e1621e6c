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
"""A value of an option that can be part of a folder's name."""


@dataclass(frozen=True)
class DatasetConfig:
    """A dataset with every option of its preparation. `dataset_config` checks the options and makes this record."""

    dataset: str
    options: Mapping[str, Any]

    @property
    def info(self) -> Dataset:
        """The facts of the dataset."""
        return DATASETS[self.dataset]

    @property
    def archives(self) -> list[SourceFile]:
        """The authors' archives that the preparation needs with these options."""
        return [file for file in self.info.archives if file.when.items() <= self.options.items()]

    @property
    def hub_files(self) -> list[SourceFile]:
        """The files that the preparation reads from the hub. By default the hub has copies of the archives."""
        if self.info.hub_files:
            return list(self.info.hub_files)
        return self.archives

    @property
    def user_path(self) -> Path | None:
        """The file or folder of a user's data; None for a published dataset."""
        if "path" not in self.options:
            return None
        return Path(self.options["path"]).expanduser()

    @property
    def label(self) -> str:
        """The dataset and its options, as messages show them."""
        if not self.options:
            return self.dataset
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"{self.dataset} ({options})"

    def folder(self, data_root: Path) -> Path:
        """The folder of the prepared arrays. Its name contains the value of each option, or a hash of the value."""
        words = [self.dataset]
        for value in self.options.values():
            text = str(value)
            if not PLAIN_WORD.fullmatch(text):
                text = digest(text)[:12]
            words.append(text)
        return data_root / "prepared" / "-".join(words)

    def prepared(self, data_root: Path, check_content: bool = False) -> Prepared:
        """The prepared dataset.

        Args:
            data_root: the folder of prepared data.
            check_content: also check that no file was changed since the preparation.

        Raises:
            UsageError: arrays are missing, damaged or changed; the message has the command to prepare them.
        """
        try:
            return read_folder(self.folder(data_root), self.options, check_content)
        except UsageError as error:
            raise UsageError(f"{error}; {self.repair(data_root)}") from error

    def repair(self, data_root: Path) -> str:
        """The command that prepares a missing or damaged dataset, as a sentence for errors."""
        flags = []
        with suppress(UsageError):  # without a manifest, no flags are needed
            manifest = read_folder(self.folder(data_root)).manifest
            flags.append("--again")
            if not manifest["verified"] and not self.user_path:
                flags.append("--unverified")
        return f"{self.label} is prepared by: {self.command('download', data_root, *flags)}"

    def by_hand(self, data_root: Path) -> str:
        """The steps that prepare the dataset from its authors' archives, as a sentence for errors."""
        names = [archive.name for archive in self.archives]
        folder = data_root / self.dataset
        pronoun = "them" if len(names) > 1 else "it"
        return (
            f"get {' and '.join(names)} from {self.info.page}, put {pronoun} into {data_root} "
            f"or {folder} and run: {self.command('prepare', data_root)}"
        )

    def command(self, verb: str, data_root: Path, *flags: str) -> str:
        """The command line of `fairbench data` for this dataset and its options.

        Args:
            verb: "download" or "prepare".
            data_root: the folder of prepared data.
            flags: further words at the end.
        """
        words = ["fairbench data", verb, "--data-root", shlex.quote(str(data_root)), "--dataset", self.dataset]
        for name, value in self.options.items():
            if value != self.info.options[name].default:
                setting = f"{name}={json.dumps(value, ensure_ascii=False)}"
                words.append(f"--set {shlex.quote(setting)}")
        words += flags
        return " ".join(words)


def dataset_config(dataset: str, options: Mapping[str, Any] | None = None) -> DatasetConfig:
    """The configuration of a dataset.

    Args:
        dataset: the name of a dataset in `PREPARED`.
        options: the options that are given; omitted ones have their defaults, other keys are ignored.

    Raises:
        UsageError: an option without a default is missing, or a value is not allowed.
    """
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
    """The datasets that the tables `data` of arenas name, each once. Embedded datasets need no preparation."""
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
    """Check that all datasets are prepared and unchanged.

    Raises:
        UsageError: some are not; the message has the commands to prepare these datasets.
    """
    missing = []
    for config in configs:
        try:
            config.prepared(data_root, check_content=True)
        except UsageError as error:
            missing.append(str(error))
    if missing:
        raise UsageError("\n  ".join(missing))

"""What is asked for: a dataset with every option of its preparation."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fairbench.common.errors import UsageError, unknown
from fairbench.common.hashing import digest
from fairbench.data.datasets.info import Archive, Dataset, HubFiles
from fairbench.data.datasets.registry import DATASETS
from fairbench.suites.schema import Suite

FileT = TypeVar("FileT", Archive, HubFiles)


@dataclass(frozen=True)
class Request:
    """A dataset with every option of its preparation, made by `request`.

    Attributes:
        dataset: its name.
        options: every option.
    """

    dataset: str
    options: Mapping[str, Any]

    @property
    def facts(self) -> Dataset:
        """The facts of the dataset."""
        return DATASETS[self.dataset]

    @property
    def archives(self) -> list[Archive]:
        """The archives that these options need."""
        return self._needed(self.facts.archives)

    @property
    def hub_files(self) -> list[HubFiles]:
        """The files of the hub that these options need."""
        return self._needed(self.facts.hub_files)

    def _needed(self, files: Iterable[FileT]) -> list[FileT]:
        return [file for file in files if file.when.items() <= self.options.items()]

    @property
    def label(self) -> str:
        """The request in a few words."""
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"{self.dataset} ({options})" if options else self.dataset

    def folder(self, data_root: Path) -> Path:
        """Where the prepared arrays lie: a folder named by the options, a value that is no plain word by its hash."""
        values = [str(value) for value in self.options.values()]
        words = [value if re.fullmatch(r"\w{1,20}", value, re.ASCII) else digest(value)[:12] for value in values]
        return data_root / "prepared" / "-".join([self.dataset, *words])

    def command(self, verb: str, data_root: Path) -> str:
        """The command that does something with this request."""
        default = self.options == {name: option.default for name, option in self.facts.options.items()}
        which = f"--dataset {self.dataset}" if default else "--suite SUITE"
        where = "" if default else f", where SUITE asks for {self.label}"
        return f"fairbench data {verb} --data-root {shlex.quote(str(data_root))} {which}{where}"


def request(dataset: str, options: Mapping[str, Any] | None = None) -> Request:
    """The request for a dataset; options that are not given have their defaults.

    Raises:
        UsageError: there is no such dataset or option, or an option has a wrong value or none.
    """
    if dataset not in DATASETS:
        raise unknown("dataset", dataset, DATASETS)
    given, declared = options or {}, DATASETS[dataset].options
    for name in given:
        if name not in declared:
            raise unknown(f"option of {dataset}", name, declared)
    complete = {name: given.get(name, option.default) for name, option in declared.items()}
    for name, value in complete.items():
        if value is None:
            example = f'data = {{ source = "{dataset}", {name} = ... }}'
            raise UsageError(f"{dataset} needs the option {name}: say --suite with a suite whose arena has {example}")
        if complaint := declared[name].complaint(value):
            raise UsageError(f"option {name} of {dataset} {complaint}")
    return Request(dataset, complete)


def wanted(suite: Suite) -> list[Request]:
    """What the arenas of a suite read: each `data` table with a `source` that is a dataset.

    Other keys of such a table say how an arena uses the data, and are not the preparation's.
    """
    found: list[Request] = []
    for plan in suite.arenas.values():
        source = plan.data.get("source")
        if source not in DATASETS:  # embedded data needs no preparation
            continue
        options = {name: value for name, value in plan.data.items() if name in DATASETS[source].options}
        asked = request(source, options)
        if asked not in found:
            found.append(asked)
    return found


def default_requests() -> list[Request]:
    """Every dataset that needs no option to be given."""
    return [
        request(name)
        for name, facts in DATASETS.items()
        if all(option.default is not None for option in facts.options.values())
    ]

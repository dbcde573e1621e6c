"""What is known about a dataset before it is read: its files, their sources and its options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Archive:
    """A file that the dataset's authors publish.

    Attributes:
        name: its name.
        size: its bytes; 0 if unknown.
        expected: its hash, hexadecimal, by kind: "sha256" or "md5".
        also: other names that it is distributed under.
        split: the official split in it, by fairbench's name; empty if it has several.
        when: the options with which it is needed.
        header: if it is a table, the line of names that some copies have; see `SourceFile`.
    """

    name: str
    size: int
    expected: Mapping[str, str]
    also: tuple[str, ...] = ()
    split: str = ""
    when: Mapping[str, Any] = field(default_factory=dict)
    header: str = ""


@dataclass(frozen=True)
class HubFiles:
    """Files of the dataset's repository on the hub.

    Attributes:
        split: the official split in them, by fairbench's name.
        pattern: shell pattern of their paths in the repository.
        when: the options with which they are needed.
    """

    split: str
    pattern: str
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Option:
    """An option of the preparation.

    Attributes:
        kind: its type.
        default: its default; None if it must be given.
        allowed: its values; None for any.
    """

    kind: type
    default: Any = None
    allowed: range | tuple[str, ...] | None = None

    def complaint(self, value: Any) -> str:
        """The error in a value; empty if there is none."""
        if type(value) is not self.kind:
            return f"must be a {'whole number' if self.kind is int else 'string'}, got {value!r}"
        if self.allowed is None or value in self.allowed:
            return ""
        if isinstance(self.allowed, range):
            return f"must lie in [{self.allowed.start}, {self.allowed.stop - 1}], got {value!r}"
        return f"must be one of {', '.join(self.allowed)}, got {value!r}"


@dataclass(frozen=True)
class Dataset:
    """The facts of a dataset.

    Attributes:
        title: a description in a few words.
        license: the terms of its use.
        module: its module in `fairbench.data.datasets`.
        citation: the publication to cite.
        page: the authors' page with the archives.
        archives: the files that the authors publish.
        repository: its repository on the hub, owner/name; empty for none.
        revision: the commit of that repository which fairbench reads.
        hub_files: the files of that repository which fairbench reads.
        options: the options of its preparation.
        fault: a known fault of the data, with its source; reports state it.
    """

    title: str
    license: str
    module: str
    citation: str = ""
    page: str = ""
    archives: tuple[Archive, ...] = ()
    repository: str = ""
    revision: str = ""
    hub_files: tuple[HubFiles, ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    fault: str = ""

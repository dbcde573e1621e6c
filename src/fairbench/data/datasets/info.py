"""What there is to know of a dataset before it is read: its files, where they come from, its options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Archive:
    """A file as the dataset's authors offer it.

    Attributes:
        name: its name.
        size: its bytes; 0 where nobody has stated them.
        sha256: its hash, hexadecimal; empty where only the md5 is known.
        md5: its hash, hexadecimal; empty where the sha256 is known.
        also: other names it goes by.
        split: the official split it holds, by fairbench's name of it, if it holds one.
        when: the options with which it is needed.
    """

    name: str
    size: int = 0
    sha256: str = ""
    md5: str = ""
    also: tuple[str, ...] = ()
    split: str = ""
    when: Mapping[str, Any] = field(default_factory=dict)

    @property
    def expected(self) -> dict[str, str]:
        """The known hash, by its kind."""
        return {"sha256": self.sha256} if self.sha256 else {"md5": self.md5}


@dataclass(frozen=True)
class HubFiles:
    """Files of the dataset's repository on the hub.

    Attributes:
        split: the official split they hold, by fairbench's name of it.
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
        default: its default; None: it must be given.
        allowed: the values it may have; None: any.
    """

    kind: type
    default: Any = None
    allowed: range | tuple[str, ...] | None = None

    def complaint(self, value: Any) -> str:
        """What is wrong with a value, empty when nothing is."""
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
        title: what it is.
        license: the terms of its use.
        module: its module in `fairbench.data.datasets.registry`.
        citation: whom to cite.
        page: where its authors offer it.
        archives: the files that they offer.
        repository: its repository on the hub, owner/name; empty: none.
        revision: the commit of that repository which fairbench reads.
        hub_files: the files of that repository which fairbench reads.
        options: the options of its preparation.
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

"""What is known about a dataset before it is read: its files, their sources and its options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fairbench.data.formats.source_files import SourceFile

UNVERIFIED = "not verified"
"""Label of data without a known hash, or with a different one."""
SHARED = "also in"
"""Part of the label of images that two splits share, as in "test also in train"."""
READING: dict[str, Mapping[str, Any]] = {
    "images": {"image_size": 0, "crop_padding": 0, "flip": False, "evaluated": 0},
    "text": {"context": int, "evaluated": 0},
}
"""The options of all datasets of a kind: the transform of stored examples, and the number of evaluated ones.

Each has its default, or its type if it must be given.
"""


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
        kind: of the arenas that can read it.
        license: the terms of its use.
        module: its module in `fairbench.data.datasets`; empty if it is embedded, so that every machine has it.
        labelled: whether each image has a label.
        citation: the publication to cite.
        page: the authors' page with the archives.
        archives: the files that the authors publish.
        repository: its repository on the hub, owner/name; empty for none.
        revision: the commit of that repository which fairbench reads.
        hub_files: the files of that repository which fairbench reads; their names are shell patterns.
        options: the options of its preparation.
        fault: a known fault of the data, with its source; reports state it.
    """

    title: str
    kind: Literal["images", "text"]
    license: str = ""
    module: str = ""
    labelled: bool = False
    citation: str = ""
    page: str = ""
    archives: tuple[SourceFile, ...] = ()
    repository: str = ""
    revision: str = ""
    hub_files: tuple[SourceFile, ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    fault: str = ""

    @property
    def suite_options(self) -> dict[str, Any]:
        """The options of the preparation as a suite names them: each with its default, or its type."""
        return {name: x.kind if x.default is None else x.default for name, x in self.options.items()}

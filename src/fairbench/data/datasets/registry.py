"""The datasets that suites can name, with the facts of each, which `datasets.toml` has.

An embedded one is made by `fairbench.data.loading`. Each other one has a module with one function, which
`fairbench.data.preparation.prepare` calls:

    read(source, options) -> Images | Texts            the examples, the same from every source
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fairbench.common.coercion import build
from fairbench.common.toml import tomllib
from fairbench.data.formats.source_files import SourceFile

UNVERIFIED = "not verified"
"""Label of data without a known hash, or with a different one."""
READING: dict[str, Mapping[str, Any]] = {
    "images": {"image_size": 0, "crop_padding": 0, "flip": False, "evaluated": 0},
    "text": {"context": int, "evaluated": 0},
}
"""The options of all datasets of a kind: the transform of stored examples, and the number of evaluated ones.

Each has its default, or its type if it must be given.
"""


@dataclass(frozen=True)
class Option:
    """An option of the preparation; it must be given if it has no default.

    Attributes:
        default: its value if none is given.
        between: the smallest and the largest number, if it is a whole number.
        words: the allowed words, if it is one of several.
    """

    default: Any = None
    between: Sequence[int] = ()
    words: Sequence[str] = ()

    @property
    def kind(self) -> type:
        return int if self.between else str

    def complaint(self, value: Any) -> str:
        """The error in a value; empty if there is none."""
        kind: Any = type(value)
        if kind is not self.kind:
            expected = "whole number" if self.between else "string"
            return f"must be a {expected}, got {value!r}"
        if self.between:
            least, most = self.between
            if not least <= value <= most:
                return f"must lie in {[least, most]}, got {value!r}"
        if self.words and value not in self.words:
            return f"must be one of {', '.join(self.words)}, got {value!r}"
        return ""


@dataclass(frozen=True)
class Dataset:
    """The facts of a dataset.

    Attributes:
        kind: of the arenas that can read it.
        module: its module in `fairbench.data.datasets`; empty if it is embedded, so that every machine has it.
        labelled: whether each image has a label.
        citation: the publication to cite.
        page: the authors' page with the archives.
        archives: the files that the authors publish.
        repository: its repository on the hub, owner/name; empty for none.
        revision: the commit of that repository which fairbench reads.
        hub_files: the files of that repository which fairbench reads; their names are shell patterns. None: `archives`.
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
    archives: Sequence[SourceFile] = ()
    repository: str = ""
    revision: str = ""
    hub_files: Sequence[SourceFile] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    fault: str = ""

    @property
    def suite_options(self) -> dict[str, Any]:
        """The options of the preparation as a suite names them: each with its default, or its type."""
        options = {}
        for name, option in self.options.items():
            options[name] = option.kind if option.default is None else option.default
        return options


FACTS = Path(__file__).with_name("datasets.toml")
_TABLES = tomllib.loads(FACTS.read_text("utf-8"))
DATASETS: dict[str, Dataset] = build(dict[str, Dataset], _TABLES, ())
"""Embedded ones first, then published ones, then those of a user."""

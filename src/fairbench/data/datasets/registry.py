"""The datasets that suites can name, with their facts from `datasets.toml`.

An embedded dataset is made by `fairbench.data.loading`. Every other dataset has a module with one function, which
`fairbench.data.preparation` calls:

    read(source, options) -> Images | Texts            the examples, the same from every source
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fairbench.common.coercion import build
from fairbench.common.toml import tomllib
from fairbench.data.formats.source_files import SourceFile, SourceFiles

if TYPE_CHECKING:
    from fairbench.data.formats.raw import Images, Texts

UNVERIFIED = "not verified"
"""The label of data whose hash is not known, or differs from the known one."""
READING: dict[str, Mapping[str, Any]] = {
    "images": {"image_size": 0, "crop_padding": 0, "flip": False, "evaluated": 0},
    "text": {"context": int, "evaluated": 0},
}
"""The options of reading for each kind of data: the transform of stored examples, and the number of evaluated examples.

The value of an option is its default, or its type if the option must be given.
"""


@dataclass(frozen=True)
class Option:
    """An option of the preparation of a dataset.

    Attributes:
        default: the value if none is given; None for an option that must be given.
        between: for a whole number, the smallest and the largest allowed number. Empty for a text.
        words: the allowed words; empty for any text.
    """

    default: Any = None
    between: Sequence[int] = ()
    words: Sequence[str] = ()

    @property
    def kind(self) -> type:
        """The type of the value: int for an option with limits, otherwise str."""
        return int if self.between else str

    def complaint(self, value: Any) -> str:
        """The fault of a value, in words that follow the option's name; empty if the value is allowed."""
        # bool is a subclass of int, but true is not a whole number
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
        title: its name in reports.
        kind: the kind of data, which decides which arenas can read it.
        license: the license of the data.
        module: its module in `fairbench.data.datasets`; empty for an embedded dataset, which every machine has.
        labelled: whether each image has a label.
        citation: the publication to cite.
        page: the authors' page with the archives.
        archives: the files that the authors publish.
        repository: its repository on the hub, owner/name; empty for none.
        revision: the commit of the repository that fairbench reads.
        hub_files: the files of the repository that fairbench reads; their names are shell patterns. If there are none,
            the repository has the archives.
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
        """The options of the preparation in a suite: the default of each, or its type if it must be given."""
        options = {}
        for name, option in self.options.items():
            options[name] = option.kind if option.default is None else option.default
        return options

    def reader(self) -> "Callable[[SourceFiles, Mapping[str, Any]], Images | Texts]":
        """The function of its module that reads the examples."""
        module = importlib.import_module(f"fairbench.data.datasets.{self.module}")
        read: Callable[[SourceFiles, Mapping[str, Any]], Images | Texts] = module.read
        return read


FACTS = Path(__file__).with_name("datasets.toml")
_TABLES = tomllib.loads(FACTS.read_text("utf-8"))
DATASETS: dict[str, Dataset] = build(dict[str, Dataset], _TABLES, ())
"""The datasets by name: first the embedded ones, then published ones, then the forms of a user's own data."""

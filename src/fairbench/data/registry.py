"""The sources of data, and the facts of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fairbench.data.datasets.registry import DATASETS

Options = Mapping[str, Any]
"""Options by name: the type of a required option, otherwise the default."""

UNVERIFIED = "not verified"
"""Label of data without a known hash, or with a different one."""

SHARED = "also in"
"""Part of the label of images that two splits share, as in "test also in train"."""

READING: dict[str, Options] = {
    "images": {"image_size": 0, "crop_padding": 0, "flip": False, "evaluated": 0},
    "text": {"context": int, "evaluated": 0},
}
"""The options of all sources of a kind: the transform of stored examples, and the number of evaluated ones."""


@dataclass(frozen=True)
class Source:
    """A source of data.

    Attributes:
        title: a description in a few words.
        kind: of the arenas that can read it.
        labelled: whether each image has a label.
        embedded: whether every machine has it.
        options: its options, in addition to those of its kind.
    """

    title: str
    kind: Literal["images", "text"]
    labelled: bool = False
    embedded: bool = False
    options: Options = field(default_factory=dict)


def _prepared(name: str, kind: Literal["images", "text"], labelled: bool = False) -> Source:
    dataset = DATASETS[name]
    options = {key: x.kind if x.default is None else x.default for key, x in dataset.options.items()}
    return Source(dataset.title, kind, labelled, False, options)


SOURCES = {
    "digits": Source("scikit-learn's digits, embedded", "images", labelled=True, embedded=True),
    "stdlib": Source("the Python standard library's source, embedded", "text", embedded=True),
    "tinystories": _prepared("tinystories", "text"),
    "cifar100": _prepared("cifar100", "images", labelled=True),
    "tiny-imagenet": _prepared("tiny-imagenet", "images", labelled=True),
    "celeba": _prepared("celeba", "images"),
    "text": _prepared("text", "text"),
    "images": _prepared("images", "images", labelled=True),
}

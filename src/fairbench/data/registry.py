"""What is known of the sources of data without loading them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fairbench.data.datasets.registry import DATASETS

Options = Mapping[str, Any]
"""Options by name: a type where the option must be given, else the default."""

SPLITS = ("train", "val", "test")
UNVERIFIED = "not verified"
"""Said of data whose hash is not the known one, or has no known one."""

READING: dict[str, Options] = {
    "images": {"image_size": 0, "crop_padding": 0, "flip": False, "evaluated": 0},
    "text": {"context": int, "evaluated": 0},
}
"""The options of all sources of a kind: how a model reads what is stored, and how many examples are evaluated."""


@dataclass(frozen=True)
class Source:
    """Where data come from.

    Attributes:
        title: what they are, in a few words.
        kind: which arenas can have them.
        labelled: whether each image has a label.
        embedded: whether every machine has them.
        options: options of its own.
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

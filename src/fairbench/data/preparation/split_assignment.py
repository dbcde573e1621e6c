"""The assignment of examples to splits, by a hash of their content: every source of a dataset gives the same splits."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbench.common.errors import UsageError
from fairbench.data.formats.raw import SEED, SPLITS

ONE_IN = 10
"""A split that is carved out of the training images gets one in this many images of each class."""
TEXT_TEST = 20
"""Without an official test split of texts, one in this many texts goes to the test split."""

DROPPED = -1
"""The role of a text that is left out."""

Keys = NDArray[np.uint64]
Rows = NDArray[np.intp]
Roles = NDArray[np.int8]
"""The role of each text: the index of its split in `SPLITS`, or `DROPPED`."""


def key(*parts: bytes) -> int:
    """The key of an example: a hash of its content, 8 bytes long and keyed with the seed."""
    sha = hashlib.blake2b(digest_size=8, key=SEED.to_bytes(8, "little"))
    for part in parts:
        sha.update(part)
    return int.from_bytes(sha.digest(), "little")


def carve(keys: Keys, labels: NDArray[Any], names: Sequence[str], classes: Sequence[str]) -> dict[str, Rows]:
    """Divide training images into "train" and further splits, which get a tenth of each class.

    The images with the smallest keys of a class go to the first of the further splits, the next ones to the second.

    Args:
        keys: the key of each image.
        labels: the label of each image.
        names: the splits to carve out of "train".
        classes: the names of the classes, for errors; empty for images without labels.

    Returns:
        The rows of "train" and of each further split, in the order of keys.

    Raises:
        UsageError: a class has too few images.
    """
    order = np.argsort(keys, kind="stable")
    longest = max(len(name) for name in ("train", *names))
    split_names = np.full(len(keys), "train", dtype=f"<U{longest}")
    if names:
        for label in np.unique(labels):
            rows = order[labels[order] == label]
            if len(rows) < ONE_IN:
                of_class = f"class {classes[label]!r} has" if classes else "there are"
                needed = f"a split in tenths needs at least {ONE_IN}; add images or remove the class"
                raise UsageError(f"{of_class} {len(rows)} different training images; {needed}")
            tenth = len(rows) // ONE_IN
            for number, name in enumerate(names):
                start = number * tenth
                split_names[rows[start : start + tenth]] = name
    return {name: order[split_names[order] == name] for name in ("train", *names)}


class Occurrences(NamedTuple):
    """The repetitions of the examples of a split, as two arrays of shape (N,).

    Attributes:
        split: the name of the split.
        first: whether an example is the first one with its key in its own split.
        taken: whether the key of an example is in an earlier split, in the order test, val, train.
    """

    split: str
    first: NDArray[np.bool_]
    taken: NDArray[np.bool_]


def occurrences(keys: Mapping[str, Keys]) -> Iterator[Occurrences]:
    """The repetitions of the examples of each split: first test, then val, then train.

    Args:
        keys: the keys of the examples of each split.
    """
    earlier_keys = np.empty(0, np.uint64)
    for split in reversed(SPLITS):
        if split not in keys:
            continue
        first = np.zeros(len(keys[split]), bool)
        _, first_rows = np.unique(keys[split], return_index=True)
        first[first_rows] = True
        taken = np.isin(keys[split], earlier_keys)
        yield Occurrences(split, first, taken)
        earlier_keys = np.concatenate([earlier_keys, keys[split]])


def image_rule(carved: Sequence[str]) -> str:
    """The rule of `carve`, in words."""
    carving = ""
    if carved:
        carving = f"; {' and '.join(carved)} out of train, each with one in {ONE_IN} of each class"
    return f"the official splits{carving}; in the order of a keyed BLAKE2b hash (8 bytes) of label and pixels"


@dataclass(frozen=True)
class Survey:
    """What the first reading of an official split of texts finds.

    Attributes:
        keys: the key of each text, shape (N,).
        sizes: the number of bytes of each text, shape (N,).
    """

    keys: Keys
    sizes: NDArray[np.int64]


def assign(surveys: Mapping[str, Survey]) -> tuple[dict[str, Roles], dict[str, int]]:
    """Assign each distinct text to one split. Official val and test splits are kept.

    Args:
        surveys: the keys and sizes of the texts of each official split.

    Returns:
        The roles of the texts of each official split, and the number of dropped texts for each reason.

    Raises:
        UsageError: a split gets no text.
    """
    roles: dict[str, Roles] = {}
    dropped: dict[str, int] = {}
    for split, first, taken in occurrences({split: survey.keys for split, survey in surveys.items()}):
        empty = surveys[split].sizes == 0
        kept = ~empty & ~taken & first
        repeated = ~empty & ~taken & ~first
        dropped[f"texts of {split}, empty"] = int(empty.sum())
        dropped[f"texts of {split}, also in another split"] = int((~empty & taken).sum())
        dropped[f"texts of {split}, repeated"] = int(repeated.sum())
        roles[split] = np.where(kept, SPLITS.index(split), DROPPED).astype(np.int8)
    _carve_texts(roles, surveys["train"].keys)
    _refuse_empty_splits(roles)
    return roles, dropped


def _carve_texts(roles: dict[str, Roles], keys: Keys) -> None:
    """Move the texts with the smallest keys from train to test, then to val, unless these splits are official.

    Args:
        roles: the roles of the texts of each official split; those of train are changed in place.
        keys: the keys of the texts of train.
    """
    train = roles["train"]
    rows = np.flatnonzero(train == SPLITS.index("train"))
    rows = rows[np.argsort(keys[rows])]
    if "test" in roles:
        test_count = int((roles["test"] != DROPPED).sum())
    else:
        test_count = len(rows) // TEXT_TEST
        train[rows[:test_count]] = SPLITS.index("test")
        rows = rows[test_count:]
    if "val" not in roles:
        val_count = min(test_count, len(rows) // ONE_IN)
        train[rows[:val_count]] = SPLITS.index("val")


def _refuse_empty_splits(roles: Mapping[str, Roles]) -> None:
    """Raise UsageError if a split has no text. `roles` are the roles of the texts of each official split."""
    for number, split in enumerate(SPLITS):
        if any((role == number).any() for role in roles.values()):
            continue
        # A split that is not official gets its texts from train.
        source = roles.get(split, roles["train"])
        different = int((source != DROPPED).sum())
        needed = 1
        if split == "train" or split not in roles:
            needed = _fewest_train_texts(roles)
        raise UsageError(
            f"too few texts for the {split} split: {different} different ones are there, and {needed} or more are "
            "needed. <|endoftext|> separates texts, and line ends do not; or each is a file or record of its own"
        )


def _fewest_train_texts(official: Collection[str]) -> int:
    """The smallest number of training texts that gives a text to every split that is carved out of them."""
    if "test" not in official:
        return TEXT_TEST
    if "val" not in official:
        return ONE_IN
    return 1


def text_rule(official: Collection[str]) -> str:
    """The rule of `assign` for texts with the given official splits, in words."""
    test = f"test is one in {TEXT_TEST} of the texts of train"
    if "test" in official:
        test = "test is the official one"
    val = f"val has as many texts as test, at most one in {ONE_IN} of the rest of train"
    if "val" in official:
        val = "val is the official one"
    return (
        "empty and repeated texts are left out, as are texts of val that are also in test, and those of train that are "
        f"in either; {test}; {val}; "
        "the texts that are taken out of train have the smallest keyed BLAKE2b hashes (8 bytes)"
    )

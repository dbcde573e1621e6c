"""The split of each example: by a hash of its content, so that every source of a dataset gives the same splits."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbench.common.errors import UsageError
from fairbench.data.formats.raw import SEED, SPLITS

ONE_IN = 10
"""A split that is carved out of the training images has one in this many of each class."""
TEXT_TEST = 20
"""Without an official test split of texts, one text in this many goes to it."""

DROPPED = -1

Keys = NDArray[np.uint64]
Rows = NDArray[np.intp]
Roles = NDArray[np.int8]
"""For each text the index of its split in `SPLITS`, or `DROPPED`."""


def key(*parts: bytes) -> int:
    """The key of an example: 8 bytes of a hash of its content, keyed with the seed."""
    sha = hashlib.blake2b(digest_size=8, key=SEED.to_bytes(8, "little"))
    for part in parts:
        sha.update(part)
    return int.from_bytes(sha.digest(), "little")


def carve(keys: Keys, labels: NDArray[Any], names: Sequence[str], classes: Sequence[str]) -> dict[str, Rows]:
    """The rows of "train" and of each split to carve out of it, with a tenth of each class, in the order of keys."""
    order = np.argsort(keys, kind="stable")
    roles = np.full(len(keys), "train", dtype=f"<U{max(map(len, ('train', *names)))}")
    for label in np.unique(labels) if names else ():
        rows = order[labels[order] == label]
        if len(rows) < ONE_IN:
            of_class = f"class {classes[label]!r} has" if classes else "there are"
            needed = f"a split in tenths needs at least {ONE_IN}; add images or remove the class"
            raise UsageError(f"{of_class} {len(rows)} different training images; {needed}")
        for i, name in enumerate(names):
            roles[rows[i * (len(rows) // ONE_IN) : (i + 1) * (len(rows) // ONE_IN)]] = name
    return {name: order[roles[order] == name] for name in ("train", *names)}


def occurrences(keys: Mapping[str, Keys]) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.bool_]]]:
    """Which examples are the first of their key in a split, and which are in an earlier split: test, val, train."""
    taken = np.empty(0, np.uint64)
    for split in filter(keys.__contains__, reversed(SPLITS)):
        first = np.zeros(len(keys[split]), bool)
        first[np.unique(keys[split], return_index=True)[1]] = True
        yield split, first, np.isin(keys[split], taken)
        taken = np.concatenate([taken, keys[split]])


def image_rule(carved: Sequence[str]) -> str:
    """The rule of `carve`, in words."""
    taken = f"; {' and '.join(carved)} out of train, each with one in {ONE_IN} of each class" if carved else ""
    return f"the official splits{taken}; in the order of a keyed BLAKE2b hash (8 bytes) of label and pixels"


@dataclass(frozen=True)
class Survey:
    """Keys and sizes in bytes of the texts of an official split, each of shape (N,)."""

    keys: Keys
    sizes: NDArray[np.int64]


def assign(surveys: Mapping[str, Survey]) -> tuple[dict[str, Roles], dict[str, int]]:
    """Assign each distinct text to one split; "val" and "test" are those of the source, if it has them.

    Returns:
        The roles of the texts of each official split, and the numbers of texts that are dropped, by reason.
    """
    roles: dict[str, Roles] = {}
    dropped: dict[str, int] = {}
    for split, first, shared in occurrences({split: survey.keys for split, survey in surveys.items()}):
        empty = surveys[split].sizes == 0
        reasons = {"empty": empty, "also in another split": ~empty & shared, "repeated": ~empty & ~shared & ~first}
        dropped |= {f"texts of {split}, {reason}": int(rows.sum()) for reason, rows in reasons.items()}
        roles[split] = np.where(~empty & first & ~shared, SPLITS.index(split), DROPPED).astype(np.int8)
    _carve_texts(roles, surveys["train"].keys)
    for i, split in enumerate(SPLITS):
        if not any((role == i).any() for role in roles.values()):
            different = int((roles.get(split, roles["train"]) != DROPPED).sum())
            of_train = TEXT_TEST if "test" not in surveys else ONE_IN if "val" not in surveys else 1
            needed = 1 if split in surveys and split != "train" else of_train
            raise UsageError(
                f"too few texts for the {split} split: {different} different ones are there, and {needed} or more are "
                "needed. <|endoftext|> separates texts, and line ends do not; or each is a file or record of its own"
            )
    return roles, dropped


def _carve_texts(roles: dict[str, Roles], keys: Keys) -> None:
    """Carve val and test, unless they are official, out of train: the texts with the smallest keys."""
    rows = np.flatnonzero(roles["train"] == SPLITS.index("train"))
    rows = rows[np.argsort(keys[rows])]
    tests = int((roles["test"] != DROPPED).sum()) if "test" in roles else len(rows) // TEXT_TEST
    if "test" not in roles:
        roles["train"][rows[:tests]] = SPLITS.index("test")
        rows = rows[tests:]
    if "val" not in roles:
        roles["train"][rows[: min(tests, len(rows) // ONE_IN)]] = SPLITS.index("val")


def text_rule(official: Collection[str]) -> str:
    """The rule of `assign` with these official splits, in words."""
    test = "test is the official one" if "test" in official else f"test is one in {TEXT_TEST} of the texts of train"
    few = f"val has as many texts as test, at most one in {ONE_IN} of the rest of train"
    return (
        "empty and repeated texts are left out, as are texts of val that are also in test, and those of train that are "
        f"in either; {test}; {'val is the official one' if 'val' in official else few}; "
        "the texts that are taken out of train have the smallest keyed BLAKE2b hashes (8 bytes)"
    )

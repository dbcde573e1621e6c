"""The splits that folders and files are named after, as in train/, valid.txt or wiki.test.tokens."""

import re
from collections.abc import Iterable
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.common.formatting import some

WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
"""Those of the library `datasets`: https://huggingface.co/docs/datasets/repository_structure."""


def split_of(name: str) -> str:
    """The split that is one of the words in a name; empty if none is, or several are."""
    words = re.findall("[A-Z]?[a-z]+|[A-Z]+", name)
    found = {WORDS[word.lower()] for word in words if word.lower() in WORDS}
    return found.pop() if len(found) == 1 else ""


def named_splits(names: Iterable[str], where: Path) -> dict[str, str]:
    """The split of each of these names in a folder; empty if fewer than two splits are named.

    Raises:
        UsageError: some of the names are of no split, or no name is of train.
    """
    splits = {name: split_of(name) for name in sorted(names)}
    found = {split: name for name, split in splits.items() if split}
    if len(found) < 2:
        return {}
    shown = f"{where} has {' and '.join(found.values())}, which are splits by their names, but"
    if others := [name for name, split in splits.items() if not split]:
        raise UsageError(f"{shown} {some(others)} {'is' if len(others) == 1 else 'are'} none; move one away")
    if "train" not in found:
        raise UsageError(f"{shown} nothing to train on; add a folder or file named train, or give one of them alone")
    return splits

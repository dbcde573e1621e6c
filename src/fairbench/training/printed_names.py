"""The names before printed numbers: which split they are of, and which words before it leave their meaning as it is."""

import re
from collections.abc import Collection, Mapping, Sequence

from fairbench.training.result_names import SPLITS

OF_ANOTHER_STEP = frozenset({"best", "lowest", "highest", "minimum", "maximum", "min", "max", "previous", "last"})
"""Words before a name that make it a value of another step, as in "best val loss"."""
OF_THE_SAME = frozenset({"final", "current", "mean", "average", "avg", "info", "debug", "warning"})
"""Words before a name that leave its meaning as it is, as in "final val loss"."""
ALL_SPLITS = frozenset({*SPLITS, *SPLITS.values(), "test"})
SPLIT_BEFORE = re.compile(
    rf"(?:^|[\s\[(|,;{{\"'])({'|'.join(sorted(ALL_SPLITS))})(?:[ \t]+(?:set|metrics|results|scores))?"
    r"[\"']?[ \t]*[\]):|>=]",
    re.IGNORECASE,
)
"""A word for a split that stands before names, as in "val: loss 2.5, acc 0.7" and "[train] loss 2.5"."""


def splits_before_names(line: str) -> dict[int, str]:
    """The words for a split that stand before names in a line, by their positions."""
    return {match.start(): str(match[1]) for match in SPLIT_BEFORE.finditer(line)}


def last_split(splits: Mapping[int, str], position: int) -> str:
    """The last of some splits before a position in their line; empty without one."""
    last = ""
    for start, split in splits.items():
        if start < position:
            last = split
    return last


def with_split(name: str, split: str, step_names: Collection[str]) -> str:
    """A name with the split that stands before it, unless it has its own, or is one of steps."""
    if not split or name.lower() in step_names or split_of(name):
        return name
    return f"{split} {name}"


def split_of(name: str) -> str:
    """The split that a name has in any of its words, such as "val" of eval_loss; empty without one."""
    words: list[str] = re.findall(r"[a-z]+", name.lower())
    for word in words:
        if word in ALL_SPLITS:
            return SPLITS.get(word, word)
    return ""


def from_step_name(words: Sequence[str], step_names: Collection[str]) -> str:
    """The name in some words before a number. It is that of steps if it ends with one, as "INFO step"."""
    is_of_another = bool(OF_ANOTHER_STEP & {word.lower() for word in words[:-1]})
    if words[-1].lower() in step_names and not is_of_another:
        return words[-1]
    return " ".join(words)


def plain_name(name: str) -> str:
    """A name without words before its split that leave its meaning as it is."""
    words = name.split()
    short = short_name(name).split()
    before = [word for word in words[: len(words) - len(short)] if word.lower() not in OF_THE_SAME]
    return " ".join([*before, *short])


def short_name(name: str) -> str:
    """A name from its first word that is a split, unless a word before makes it a value of another step."""
    words = name.split()
    for index, word in enumerate(words):
        if OF_ANOTHER_STEP & {before.lower() for before in words[:index]}:
            break
        first = re.split(r"[^a-z]", word.lower())[0]
        if first in ALL_SPLITS:
            return " ".join(words[index:])
    return name

"""Names of runs whose parts form a grid: one part says the optimizer, another the data set, and one the seed.

The names are those that a table has, or the paths of files.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from fairbench.analysis.tables.column_names import ARENA, OPTIMIZER, is_varied, plain_name
from fairbench.analysis.tables.data_set_parts import data_set_of, labels_by_data_sets
from fairbench.analysis.tables.labels import is_data_set, is_optimizer
from fairbench.analysis.tables.seed_names import NUMBER_AT_THE_END, SEED_IN_NAME, are_seeds
from fairbench.common.errors import UsageError
from fairbench.common.formatting import some

MARK = "\0"
"""What stands for the seed in a name."""
SEPARATORS = ("/", "/_", "/-", "/ ", "/.", "/,", "/_-")
"""The characters that may separate parts. The first ones whose parts tell the optimizer count."""
AROUND = "_-., "
"""The characters that may stand between a part and the seed."""
SETTING = re.compile(r"(?P<name>[a-z_]*?)[=_-]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
"""A part with a number, perhaps after the name of a setting, such as "lr0.1"."""


KEY = re.compile(r"([a-z_.]+)=", re.IGNORECASE)
"""The name of a setting before its value in a part, such as "optimizer=adamw"."""


class Places(NamedTuple):
    """The places of the parts that say the optimizer and the arena."""

    optimizer: int
    arenas: Sequence[int]


@dataclass(frozen=True)
class SplitNames:
    """The names of runs in parts.

    Attributes:
        marked: the names with MARK for their seeds.
        seeds: the word and the number of each seed; empty if the names have none.
        words: the parts of each name without its seed, as many for each name.
        separators: the characters that separate parts.
    """

    marked: Sequence[str]
    seeds: Sequence[tuple[str, str]]
    words: Sequence[tuple[str, ...]]
    separators: str

    def values(self, place: int) -> list[str]:
        """The different texts of a part."""
        return list(dict.fromkeys(words[place] for words in self.words))

    def key(self, place: int) -> str:
        """The plain name of the setting of which all texts of a part have a value; empty without one."""
        matches = [KEY.match(text) for text in self.values(place)]
        keys = {plain_name(match[1]) if match else "" for match in matches}
        return keys.pop() if len(keys) == 1 else ""

    @property
    def places(self) -> range:
        """The places of the parts."""
        return range(len(self.words[0]))

    @property
    def varying(self) -> list[int]:
        """The places of the parts in which the names differ."""
        return [place for place in self.places if len(self.values(place)) > 1]

    @property
    def is_whole_grid(self) -> bool:
        """Whether several parts vary, and all combinations of their texts are there."""
        counts = [len(self.values(place)) for place in self.varying]
        return len(counts) > 1 and len(set(self.words)) == prod(counts)

    @property
    def is_grid(self) -> bool:
        """Whether several parts vary independently. Of folders, some combinations may be missing."""
        counts = [len(self.values(place)) for place in self.varying]
        if self.separators == "/":
            return len(counts) > 1 and len(set(self.words)) > max(counts)
        return self.is_whole_grid


def labels_by_pattern(names: Sequence[str], pattern: str) -> list[dict[str, str]]:
    """The texts of the named groups of a regular expression in each name.

    Args:
        names: the names of the runs, or the paths of their files.
        pattern: a regular expression with named groups, which the user gives as --name.

    Raises:
        UsageError: the expression is wrong, or is not in a name.
    """
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--name is no regular expression: {error}; got {pattern!r}") from None
    if not expression.groupindex:
        raise UsageError(f"--name needs named groups, such as (?P<optimizer>\\w+)-(?P<seed>\\d+); got {pattern!r}")
    labels = []
    for name in names:
        match = expression.search(name)
        if match is None:
            raise UsageError(f"--name {pattern!r} is not in {name}; change it, or leave this run out")
        labels.append({group: text or "" for group, text in match.groupdict().items()})
    return labels


def labels_of_grid(names: Sequence[str], paths: Sequence[str], source: str) -> list[dict[str, str]]:
    """The optimizer, the arena and the seed that the parts of each name say; empty if they form no grid.

    Args:
        names: the name of each run, or the part of each path in which the paths differ.
        paths: what the pattern of the option that a message offers is looked for in: the paths, or the names.
        source: what has the names, for this message.

    Raises:
        UsageError: the parts form a grid, but do not say which one is the optimizer.
    """
    seeds, marked = _with_marks(names)
    unsure = None
    for separators in SEPARATORS:
        split = _split(marked, seeds, separators)
        if split is None:
            continue
        places = _places(split)
        if places is not None:
            return [_label(split, index, places) for index in range(len(names))]
        if unsure is None and split.is_whole_grid:
            unsure = split
    if unsure is not None:
        raise _unsure_error(unsure, paths[0], source)
    return labels_by_data_sets(marked, seeds, source)


def labels_of_data_sets(names: Sequence[str]) -> list[dict[str, str]]:
    """The well-known data sets of names without optimizers, and their seeds; empty unless there are several data sets.

    Each name must have one.
    """
    seeds, marked = _with_marks(names)
    for texts, numbers in ((marked, seeds), (names, [])):  # the number may belong to the data set
        data_sets = [data_set_of(text) for text in texts]
        if "" in data_sets or len(set(data_sets)) < 2:
            continue
        if not numbers:
            return [{"arena": data_set} for data_set in data_sets]
        return [{"arena": data_set, "seed": seed} for data_set, (_, seed) in zip(data_sets, numbers, strict=True)]
    return []


def have_seeds(names: Sequence[str]) -> bool:
    """Whether each name has a seed."""
    seeds, _ = _with_marks(names)
    return bool(seeds)


def _with_marks(names: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The word and the number of the seed of each name, and the names with a mark for it; none if a name has none."""
    for pattern in (SEED_IN_NAME, NUMBER_AT_THE_END):
        found = [match for match in map(pattern.search, names) if match is not None]
        if len(found) == len(names):
            seeds = [(match["word"], match["seed"]) for match in found]
            marked = [f"{match.string[: match.start()]}{MARK}{match.string[match.end() :]}" for match in found]
            return seeds, marked
    return [], list(names)


def _split(marked: Sequence[str], seeds: Sequence[tuple[str, str]], separators: str) -> SplitNames | None:
    """The names in parts; None if they have different numbers of parts, or no part but the seed."""
    words = []
    for name in marked:
        parts = re.split(f"[{re.escape(separators)}]+", name)
        texts = [_word(part) for part in parts]
        words.append(tuple(text for text in texts if text))
    lengths = {len(texts) for texts in words}
    if len(lengths) > 1 or 0 in lengths:
        return None
    return SplitNames(marked=marked, seeds=seeds, words=words, separators=separators)


def _word(part: str) -> str:
    """A part without the seed and what separates the two."""
    if MARK in part:
        return part.replace(MARK, "").strip(AROUND)
    return part


def _places(split: SplitNames) -> Places | None:
    """Which part is the optimizer, where the names of optimizers and of data sets leave no doubt; otherwise None."""
    varying = split.varying
    of_optimizers = [place for place in varying if split.key(place) in OPTIMIZER]
    if not of_optimizers:
        of_optimizers = [place for place in varying if any(map(is_optimizer, split.values(place)))]
    others = [place for place in varying if place not in of_optimizers]
    of_data_sets = [
        place for place in others if split.key(place) in ARENA or all(map(is_data_set, split.values(place)))
    ]
    unknown = [place for place in others if place not in of_data_sets]
    has_settings = any(_are_settings(split.values(place)) for place in unknown)
    if len(of_optimizers) == 1 and others:
        if not unknown or (split.is_grid and not has_settings):
            return Places(of_optimizers[0], others)
        return None
    if of_optimizers or not of_data_sets:
        return None
    if unknown:
        if len(unknown) == 1 and split.is_grid and not has_settings:
            return Places(unknown[0], of_data_sets)
        return None
    # the data sets differ, and all files may be of one optimizer
    constant = [place for place in split.places if is_optimizer(split.words[0][place])]
    if len(constant) == 1:
        return Places(constant[0], of_data_sets)
    return None


def _are_settings(values: Sequence[str]) -> bool:
    """Whether all texts of a part are numbers, seeds such as "fold3", or settings with a number, such as "lr0.1"."""
    if are_seeds(values):
        return True
    for value in values:
        match = SETTING.fullmatch(value)
        if match is None or (match["name"] and not is_varied(match["name"])):
            return False
    return True


def _label(split: SplitNames, index: int, places: Places) -> dict[str, str]:
    """The optimizer, the arena and the seed of a name."""
    words = tuple(KEY.sub("", word, count=1) for word in split.words[index])
    label = {"optimizer": words[places.optimizer], "arena": "/".join(words[place] for place in places.arenas)}
    if split.seeds:
        _, label["seed"] = split.seeds[index]
    return label


def _unsure_error(split: SplitNames, path: str, source: str) -> UsageError:
    """The error for parts of names that do not say which one is the optimizer. `path` is that of the first name."""
    varying = split.varying
    texts = "; ".join(some(split.values(place)) for place in varying)
    groups = {place: f"part{place + 1}" for place in varying}
    groups[varying[0]] = "arena"
    groups[varying[-1]] = "optimizer"
    way = f"--name '{_pattern(split, path, groups)}'"
    arenas = [groups[place] for place in varying[:-1]]
    if len(arenas) > 1:
        way += f" --columns 'arena={'+'.join(arenas)}'"
    return UsageError(
        f"{source} differ in {len(varying)} parts: {texts}. Which is the optimizer? Give {way}, "
        "with the names of its groups exchanged where another part is the optimizer"
    )


def _pattern(split: SplitNames, path: str, groups: dict[int, str]) -> str:
    """A regular expression with a group for each part that differs, made from the path of the first name.

    Args:
        groups: the name of the group of each place.
    """
    name = split.marked[0]
    word = ""
    seed = ""
    if split.seeds:
        word, seed = split.seeds[0]
    original = name.replace(MARK, word + seed)
    end = path[path.rindex(original) + len(original) :]
    pattern = ""
    place = 0
    for piece in re.split(f"([{re.escape(split.separators)}]+)", name):
        text = _word(piece)
        if not text or piece[0] in split.separators:
            pattern += _escaped(piece)
            continue
        before, _, after = piece.partition(text)
        expression = _escaped(text)
        if place in groups:
            expression = f"(?P<{groups[place]}>[^{re.escape(split.separators)}]+)"
        pattern += _escaped(before) + expression + _escaped(after)
        place += 1
    return pattern.replace(MARK, rf"{_escaped(word)}(?P<seed>\d+)") + _escaped(end)


def _escaped(text: str) -> str:
    """A text for a regular expression, with an escape only where a character has a meaning there."""
    return re.sub(r"[.^$*+?{}()|\[\]\\]", r"\\\g<0>", text)

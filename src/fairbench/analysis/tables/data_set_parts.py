"""Names of runs with unlike numbers of parts, as sgd-momentum-svhn-0 and adam-cifar-10-0, by their data sets."""

import re
from collections.abc import Sequence

from fairbench.analysis.tables.labels import is_data_set, is_optimizer
from fairbench.common.errors import UsageError
from fairbench.common.formatting import some

SEPARATORS = re.compile(r"[/_\-. ]+")
NUMBER = re.compile(r"\d+k?")
"""A part that belongs to the data set before it, as in "cifar-10" and "imagenet-1k"."""


def labels_by_data_sets(marked: Sequence[str], seeds: Sequence[tuple[str, str]], source: str) -> list[dict[str, str]]:
    """The optimizer, the arena and the seed of each name; empty if the names do not have several data sets and seeds.

    Each name must have one well-known data set, what remains of it must be an optimizer that has a run on each of them.

    Args:
        marked: the names with a mark for their seeds.
        seeds: the word and the number of each seed; empty if the names have none.
        source: what has the names, for the message.

    Raises:
        UsageError: the names have several data sets, but what remains is not the same for each of them.
    """
    if not seeds:
        return []
    pairs = [_parts(name) for name in marked]
    if not all(optimizer and is_optimizer(optimizer) for optimizer, _ in pairs):
        return []
    optimizers = {optimizer for optimizer, _ in pairs}
    data_sets = {data_set for _, data_set in pairs}
    if "" in data_sets or len(data_sets) < 2:
        return []
    if len(set(pairs)) < len(optimizers) * len(data_sets):
        raise UsageError(
            f"{source} have the data sets {some(sorted(data_sets))}, and not the same optimizers in each: "
            f"{some(sorted(optimizers))}. Give --name '(?P<optimizer>...)...(?P<arena>...)...(?P<seed>...)', a regular "
            "expression of the names"
        )
    return [
        {"optimizer": optimizer, "arena": data_set, "seed": seed}
        for (optimizer, data_set), (_, seed) in zip(pairs, seeds, strict=True)
    ]


def data_set_of(name: str) -> str:
    """The well-known data set in a name; empty if it has none, or several."""
    _, data_set = _parts(name)
    return data_set


def _parts(name: str) -> tuple[str, str]:
    """The optimizer and the data set of a name without its seed; both empty unless it has one data set."""
    words = [word for word in SEPARATORS.split(name.replace("\0", " ")) if word]
    places = [place for place, word in enumerate(words) if is_data_set(word)]
    if len(places) != 1:
        return "", ""
    (first,) = places
    end = first + 1
    while end < len(words) and NUMBER.fullmatch(words[end]):
        end += 1
    return "-".join([*words[:first], *words[end:]]), "-".join(words[first:end])

"""What a seed looks like in a name: a number after its word, such as "seed 3", or a whole number at the end."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from fairbench.common.grouping import grouped

SEED_WORD = r"(?:random[\s_-]*)?seed"
"""The word of a seed."""
RUN_WORD = "run|rep|repeat|replicate|trial|fold|split|version"
"""Words of a run whose number is taken as its seed."""
BETWEEN = r"[\s_#=:-]*"
"""The characters that may stand between a word and its number."""
SEED_ALONE = re.compile(rf"(?:{SEED_WORD}|{RUN_WORD}){BETWEEN}(\d+)", re.IGNORECASE)
"""A text that is a seed and nothing else, such as "seed 3"."""
SEED_IN_NAME = re.compile(rf"(?<![a-z\d])(?P<word>{SEED_WORD}{BETWEEN})(?P<seed>\d+)(?![a-z\d])", re.IGNORECASE)
"""A seed with its word."""
NUMBER_AT_THE_END = re.compile(
    rf"(?<=[\s_./-])(?<!\d\.)(?P<word>(?:s|{RUN_WORD})?{BETWEEN})(?P<seed>\d+)$", re.IGNORECASE
)
"""A whole number at the end of a name, which is taken as its seed."""
RUN_WITH_SEED = re.compile(rf"(.+?)[\s_./(-]*{SEED_WORD}{BETWEEN}(\d+)\)?", re.IGNORECASE)
"""The name of a run with its seed."""
RUN_WITH_NUMBER = re.compile(rf"(?!.*\d\.\d+$)(.+?)[\s_./-]+(?:s|{RUN_WORD})?{BETWEEN}(\d+)", re.IGNORECASE)
"""The name of a run with a whole number, which may be its seed."""
RUN_WITH_MARK = re.compile(
    rf"(.+?)[\s_./-]+(?:s|{SEED_WORD}|run|rep|repeat|replicate|trial){BETWEEN}(\d+)", re.IGNORECASE
)
"""The name of a run with a word of a seed, or its first letter, before the number."""


def seed_in(text: str) -> str:
    """The number of a seed in a text such as "3" or "seed 3"; empty for another text."""
    stripped = text.strip()
    match = SEED_ALONE.fullmatch(stripped)
    if match:
        return match[1]
    if re.fullmatch(r"\d+(?:\.0+)?", stripped):
        return stripped
    return ""


def are_seeds(texts: Iterable[str]) -> bool:
    """Whether all texts are seeds."""
    return all(seed_in(text) for text in texts)


def seeds_of_names(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The optimizer and the seed at the end of each name of a run; names without a seed are left out.

    The word seed may stand before it, or another word of a run if an optimizer has the numbers from 0 or 1 on.
    Otherwise all names must have a number, of two or more optimizers, each with two or more names.
    """
    with_seed = _split(names, RUN_WITH_SEED)
    if with_seed:
        return with_seed
    marked = _split(names, RUN_WITH_MARK)
    if any(_are_counted(numbers) for numbers in grouped(marked.values()).values()):
        return marked
    numbers = _split(names, RUN_WITH_NUMBER)
    run_counts = Counter(optimizer for optimizer, _ in numbers.values())
    if len(numbers) < len(names) or len(run_counts) < 2 or min(run_counts.values()) < 2:
        return {}  # the numbers may be a part of the optimizers' names
    return numbers


def names_without_seed(names: Sequence[str]) -> list[str]:
    """The names that lack a seed which others of the table seem to have; empty where the names are clear.

    These are adamw next to adamw_s1, and any name without a number where several optimizers have the same numbers.
    """
    marked = {optimizer for optimizer, _ in _split(names, RUN_WITH_MARK).values()}
    whole = [name for name in names if name in marked]
    if whole:
        return whole
    numbers = _split(names, RUN_WITH_NUMBER)
    seeds_of = grouped(numbers.values())
    repeated = {optimizer: frozenset(seeds) for optimizer, seeds in seeds_of.items() if len(seeds) > 1}
    if len(repeated) < 2 or len(set(repeated.values())) > 1:
        return []  # the numbers may be a part of the optimizers' names
    without = []
    for name in names:
        optimizer, _ = numbers.get(name, ("", ""))
        if optimizer not in repeated:
            without.append(name)
    return without


def _are_counted(numbers: Sequence[str]) -> bool:
    """Whether two or more numbers are those from 0 or 1 on."""
    counted = sorted(map(int, numbers))
    return len(counted) > 1 and counted[0] in (0, 1) and counted == [*range(counted[0], counted[-1] + 1)]


def _split(names: Sequence[str], pattern: re.Pattern[str]) -> dict[str, tuple[str, str]]:
    """The two groups of a pattern in each name that it matches."""
    parts = {}
    for name in names:
        match = pattern.fullmatch(name)
        if match:
            parts[name] = (match[1], match[2])
    return parts

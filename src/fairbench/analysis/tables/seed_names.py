"""What a seed looks like in a name: a number after its word, such as "seed 3", or a whole number at the end."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

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

    The word seed may stand before it. Otherwise all names must have a number, of two or more optimizers, each with two
    or more names.
    """
    with_seed = _split(names, RUN_WITH_SEED)
    if with_seed:
        return with_seed
    numbers = _split(names, RUN_WITH_NUMBER)
    run_counts = Counter(optimizer for optimizer, _ in numbers.values())
    if len(numbers) < len(names) or len(run_counts) < 2 or min(run_counts.values()) < 2:
        return {}  # the numbers may be a part of the optimizers' names
    return numbers


def _split(names: Sequence[str], pattern: re.Pattern[str]) -> dict[str, tuple[str, str]]:
    """The two groups of a pattern in each name that it matches."""
    parts = {}
    for name in names:
        match = pattern.fullmatch(name)
        if match:
            parts[name] = (match[1], match[2])
    return parts

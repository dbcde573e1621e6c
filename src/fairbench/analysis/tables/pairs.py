"""Which optimizers of a table are compared with which."""

import re
from collections.abc import Sequence
from itertools import combinations

from fairbench.analysis.tables.labels import words_of
from fairbench.analysis.tables.question import Question
from fairbench.common.formatting import some

Pair = tuple[str, str]
"""An optimizer and the baseline that it is compared with."""
OWN = re.compile(r"mine|ours?|my|proposed|myrule|myoptimizer")
"""A word in the name of an optimizer that its author compares with all others."""
BASELINE = re.compile(r"baseline|vanilla")
"""A word in the name of an optimizer that all others are compared with."""
BASELINE_ALONE = re.compile(r"base|reference|ref|default|control")
"""A name of an optimizer that all others are compared with; not a word in it, as in "BERT base"."""


def pairs_of(optimizers: Sequence[str], asked: Question) -> tuple[list[Pair], str]:
    """The pairs to compare, and what they are in words.

    Args:
        optimizers: the optimizers in the order of the table.
        asked: the optimizer and the baselines that the user names. Without both, a name with a word as "ours" is
            compared with all others, or all others with one as "baseline"; without such a name, it is every pair.
    """
    own = [asked.optimizer]
    if not asked.optimizer:
        own = _with_word(optimizers, OWN)
    baselines = list(asked.baselines)
    if not baselines and not own:
        baselines = _with_word(optimizers, BASELINE)
        baselines += [name for name in optimizers if BASELINE_ALONE.fullmatch(name.casefold())]
    if len(own) == 1:
        others = baselines or [name for name in optimizers if name != own[0]]
        pairs = [(own[0], other) for other in others if other != own[0]]
        return pairs, f"{own[0]} is compared with {some(others)}"
    if asked.baselines or len(baselines) == 1:
        others = [name for name in optimizers if name not in baselines]
        pairs = [(other, baseline) for other in others for baseline in baselines]
        return pairs, f"{some(others)} compared with {some(baselines)}"
    pairs = list(combinations(optimizers, 2))
    if len(pairs) == 1:
        return pairs, f"{pairs[0][0]} is compared with {pairs[0][1]}"
    return pairs, "every pair is compared, as no --optimizer is named"


def _with_word(optimizers: Sequence[str], word: re.Pattern[str]) -> list[str]:
    """The optimizers whose names have a word."""
    return [name for name in optimizers if any(map(word.fullmatch, words_of(name)))]

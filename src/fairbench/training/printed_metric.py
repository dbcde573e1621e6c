"""A pattern for a metric that a program prints under another name than the one that it was asked for."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fairbench.training.printed_lines import COLOR, WORD
from fairbench.training.printed_names import OF_ANOTHER_STEP
from fairbench.training.printed_numbers import NUMBER, Unclear, read_numbers, whole_text
from fairbench.training.result_names import STEP_NAMES, words_of

BETWEEN = r"[ \t:=|\u2502>\-~\[\"']{1,20}?"
"""What may stand between a name and its number."""
LABELED = re.compile(
    rf"(?<![\w.])((?:{WORD}[ \t]+){{0,3}}{WORD})({BETWEEN})({NUMBER})(?![\d.]*\d|[,/]\d|[ \t)\]]*[:=])", re.IGNORECASE
)
"""A name of one to four words and its number, as a program may print them: "RMSE of prediction is: 2.5", "loss | 2.5".

A number with a slash, such as 8/10, is none, and neither is one that belongs to a name, as in "top 1: 54"."""
GROUPS = (r"([-+.\w]+)", r"([-+]?\d+\.?\d*)")
"""Groups for a number: for any, which may be infinite or NaN, and for one with letters or a full stop right behind."""
PART = re.compile(r"[^,;|]*")
"""The rest of a part of a line."""
MOST = 1_000_000
"""The most characters of an output that are read, its last ones."""
SHORTEST = 3
"""The fewest letters of a word that may stand for a longer one, such as acc for accuracy."""
OTHERS = frozenset({"train", "test", *STEP_NAMES, *OF_ANOTHER_STEP})
"""Words of a name whose number is not one of the validation, or one of another step."""


class Found(NamedTuple):
    """A pattern, and the last number that it reads in an output."""

    pattern: str
    number: str


class _Printed(NamedTuple):
    """A name with its number in a line of output.

    Attributes:
        line: the number of the line.
        before, after: the text of the line before the name and after the number.
    """

    line: int
    before: str
    name: str
    between: str
    number: str
    after: str


def pattern_for(key: str, text: str) -> Found | None:
    """The pattern that reads a metric by a name which has a word of it. The name with the most of them is taken.

    None if there is no such name, or if the pattern would also read the number of another name.

    Args:
        key: the metric, such as "val/loss".
        text: the output of a program.
    """
    wanted = [word for word in words_of(key) if word not in ("val", "train", "test")]  # a split is no quantity
    lines = [COLOR.sub("", line) for line in text[-MOST:].splitlines()]
    found = list(_printed_in(lines))
    best: _Printed | None = None
    most = (0, 0)
    for each in found:
        words = words_of(each.name)
        likeness = (shared_words(wanted, words), -len(words))
        is_another = bool(OTHERS & {*words} - {*wanted}) or _are_two_quantities(wanted, words)
        if likeness[0] and likeness >= most and not is_another and _belongs(each, wanted):
            best = each
            most = likeness
    if best is None:
        return None
    return _checked(best, found, lines)


def _printed_in(lines: Sequence[str]) -> Iterator[_Printed]:
    """The names with numbers in an output."""
    for number, line in enumerate(lines):
        for match in LABELED.finditer(line):
            name, between, value = match.groups()
            (number_alone,) = read_numbers([whole_text(line, match.start(3))])
            if isinstance(number_alone, Unclear):
                continue
            yield _Printed(number, line[: match.start()], name, between, value, line[match.end() :])


def shared_words(wanted: Sequence[str], words: Sequence[str]) -> int:
    """The number of words of a metric that a name has, whole or shortened."""
    return sum(any(_is_alike(word, other) for other in words) for word in wanted if word.isalpha())


def _are_two_quantities(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a metric and a name each have a word that the other lacks, such as ep_rew_mean and ep_len_mean."""
    own = [word for word in wanted if not any(_is_alike(word, other) for other in words)]
    others = [word for word in words if word != "val" and not any(_is_alike(word, other) for other in wanted)]
    return bool(own and others)


def _is_alike(word: str, other: str) -> bool:
    """Whether two words are equal, or one is the beginning of the other."""
    shorter, longer = sorted((word, other), key=len)
    return word == other or (len(shorter) >= SHORTEST and longer.startswith(shorter))


def _belongs(each: _Printed, wanted: Sequence[str]) -> bool:
    """Whether a number is that of the metric in the name before it, and not of a word in between.

    In "loss after 10 steps: 2.5" it is not: words follow the metric, and so does another number.
    """
    last_word = each.name.split()[-1]
    if shared_words(wanted, words_of(last_word)):
        return True
    rest = PART.match(each.after)
    return rest is not None and not re.search(r"\d", rest[0])


def _checked(best: _Printed, found: Sequence[_Printed], lines: Sequence[str]) -> Found | None:
    """The pattern for a number if it reads the numbers of this name, and no other ones.

    At the beginning of a line, a pattern may say so, which leaves out longer names: "train loss" for "loss". A name
    behind other words elsewhere has two meanings, as in "train: mean loss 2.5" and "valid: mean loss 3.5".
    """
    name = _escaped(best.name) + _escaped(best.between)
    alike = [each for each in found if each.name == best.name]
    if len({re.sub(r"[\d.\s]", "", each.before) for each in alike}) > 1:
        return None
    named = {each.line: each.number for each in alike}
    begins = ["", "^ *"] if not best.before.strip() else [""]
    for begin in begins:
        for group in GROUPS:
            pattern = begin + name + group
            matches = {number: re.search(pattern, line) for number, line in enumerate(lines)}
            read = {number: match[1] for number, match in matches.items() if match}
            if read == named:
                return Found(pattern, best.number)
    return None


def _escaped(text: str) -> str:
    """A pattern for a text of a line. Spaces may be more or fewer elsewhere, where numbers are aligned."""
    pattern = re.sub(r"[.^$*+?{}\[\]\\|()]", r"\\\g<0>", text)
    pattern = re.sub(r"['\"]", ".", pattern)  # the pattern is shown in quotes
    return re.sub(r"[ \t]+", " +", pattern) if re.search(r"[ \t]{2}|[ \t]$", text) else pattern

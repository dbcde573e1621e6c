"""The rows in what a program prints: names with numbers, as in "step 250: val loss 2.50", and objects of JSON."""

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

from fairbench.arenas.program import ProgramOptions
from fairbench.training.printed_names import (
    from_step_name,
    last_split,
    plain_name,
    short_name,
    split_of,
    splits_before_names,
    with_split,
)
from fairbench.training.printed_numbers import WRITTEN, Unclear, read_numbers, step_of, whole_text
from fairbench.training.result_names import STEP_NAMES
from fairbench.training.text_results import Row, flat, parsed_json

WORD = r"[A-Za-z_](?:[\w/.\-@]|'(?=\w))*"
OPENING = r"(?:(?:(?:torch|np|numpy|jnp)\.)?(?:tensor|array|float\d*)\()?[\"']?"
"""What may stand before a number that is a tensor, an array or a text."""
PAIR = re.compile(
    rf"(?<![\w.])((?:{WORD}[ \t]+){{0,3}}?{WORD})(?:[ \t]+(?:is|was))?[\"']?"
    rf"[ \t]*(?:[:=]*|[|│┃])[ \t]*{OPENING}({WRITTEN})",
    re.IGNORECASE,
)
"""A name of one to four words and its number, such as "val loss 2.5", "val_loss: 2.5" or "| val_loss | 2.5 |"."""
OF_NAME = re.compile(r"[ \t)\]]*[:=]+[ \t]*[-+]?[\d.]")
"""What stands behind a number that belongs to a name, as in "top 1: 54"."""
OF_FILE = re.compile(r"[^\s,;'\")\]}]*\.[A-Za-z]\w*")
"""What stands behind a number in the name of a file, as in "epoch=2-val_loss=0.53.ckpt"."""
COLOR = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9])")
"""A sequence of characters that colors a terminal, moves its cursor, or makes a link."""
RANK = re.compile(
    r"(?:[^A-Za-z]*|.*?\b(?:DEBUG|INFO|WARNING)\b[^A-Za-z]*)(?:\[\d+,(?P<of_mpi>\d+)\]<std\w+>:?|"
    r"\(\w+ pid=(?P<of_ray>\d+)[^)]*\)|"
    r"[\[(]?(?:(?:local|global)[ _-])?(?:rank|default|gpu|worker|process)[ _:=#]*(?P<rank>\d+)(?:[\])]:?|[ \t]*[:|,]))",
    re.IGNORECASE,
)
"""The rank of a process at the beginning of its line, as torchrun writes it: "[rank1]: val loss 2.5". Ray has a pid."""
UNNAMED = -1
"""Stands for the rank of lines without one, which go before all others."""
OF_PROCESS = re.compile(r"^\s*\d+: |\d*\.\d+(?:e[-+]?\d+)?", re.IGNORECASE)
"""What differs in a line that two processes print: decimal numbers, and the number before it that `srun -l` writes.

That number alone is no `RANK`, since a program may begin its lines with the number of a step.
"""


@dataclass(frozen=True)
class _Printed:
    """A value in a line of output.

    Attributes:
        name: its name, with the split that stands before it in the line, as in "val: loss 2.5".
        near: the split of the nearest name before it; empty without one, and if its own name has a split.
        value: the text of a number, or a value of an object.
    """

    name: str
    near: str
    value: Any


@dataclass
class _Line:
    """A line of output.

    Attributes:
        number: its number in the file.
        text: the line without colors.
        is_overwritten: whether a terminal shows the next line in its place, as progress bars do.
        rank: the rank of the process that has printed it, or `UNNAMED`.
        values: the values by their names. Numbers are texts at first.
    """

    number: int
    text: str
    is_overwritten: bool
    rank: int
    values: dict[str, Any]


def printed(name: str, text: str, first: int, options: ProgramOptions) -> Iterator[Row]:
    """The rows in what a program prints: its objects of JSON or Python, and names with numbers.

    Where several processes print a name, those of the first rank count. A number that may be several ones is `Unclear`.

    Args:
        name: the name of the file, for errors.
        text: the output.
        first: the number of the first line.
        options: has regular expressions by the name of what they read; for these names they alone hold.
    """
    step_names = {*STEP_NAMES, options.names["step"].lower()}
    lines = _lines(text, first, step_names)
    for line in lines:
        for key, pattern in options.patterns.items():
            line.values.pop(key, None)
            match = re.search(pattern, line.text)
            if match:
                line.values[key] = match[1]
    lines = _of_first_rank([line for line in lines if line.values], step_names)
    _shorten_names(lines)
    _read_texts(lines, step_names)
    _mark_contradictions(lines, step_names)
    for line in lines:
        yield f"{name}, line {line.number}", line.values


def _lines(text: str, first: int, step_names: Collection[str]) -> list[_Line]:
    """The lines of an output. `first` is the number of the first one."""
    lines = []
    printed_in: list[list[_Printed]] = []
    for number, raw in enumerate(text.splitlines(keepends=True), first):
        line = COLOR.sub("", raw.rstrip("\r\n")).replace("\u2212", "-")
        rank = UNNAMED
        content = line
        match = RANK.match(line)
        if match:
            rank = int(match["rank"] or match["of_mpi"] or match["of_ray"])
            content = line[match.end() :]
        printed_in.append(_printed_in(content, step_names))
        lines.append(_Line(number, line, raw.endswith("\r"), rank, {}))
    nearby: dict[str, set[str]] = {}
    for each in chain(*printed_in):
        nearby.setdefault(each.name, set()).add(each.near)
    for each_line, found in zip(lines, printed_in, strict=True):
        for each in found:
            name = each.name
            has_several = len(nearby[name]) > 1  # as in "train loss 2.4, acc 0.8, val loss 2.5, acc 0.7"
            if has_several or each.near == "train":
                name = f"{each.near} {name}".strip()
            each_line.values[name] = each.value
    return lines


def _printed_in(line: str, step_names: Collection[str]) -> list[_Printed]:
    """The values in a line: those of an object in braces, and the texts of numbers behind names."""
    begin = line.find("{")
    end = line.rfind("}") + 1
    found = _object(line[begin:end]) if 0 <= begin < end else None
    if found is None:
        return _pairs_in(line, step_names)
    split = last_split(splits_before_names(line), begin)
    values = _pairs_in(line[:begin], step_names)
    for name, value in flat(found).items():
        values.append(_Printed(with_split(name, split, step_names), "", value))
    return values


def _object(text: str) -> dict[str, Any] | None:
    """The object of JSON, or the dictionary of Python, in a text; None if it is neither."""
    parsers: list[Callable[[str], Any]] = [parsed_json]
    if "\\" not in text:  # Python warns of some backslashes
        parsers.append(ast.literal_eval)
    for parse in parsers:
        with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            found = parse(text)
            if isinstance(found, dict):
                return found
    return None


def _pairs_in(line: str, step_names: Collection[str]) -> list[_Printed]:
    """The texts of the numbers in a line behind their names."""
    found = []
    splits = splits_before_names(line)
    near = ""
    for pair in PAIR.finditer(line):
        name = from_step_name(pair[1].split(), step_names)
        is_step = name.lower() in step_names
        is_of_name = not is_step and OF_NAME.match(line, pair.end())
        if is_of_name or OF_FILE.match(line, pair.end()):
            continue
        split = last_split(splits, pair.start(2))
        name = with_split(name, split, step_names)
        own_split = split_of(name)
        if own_split:
            near = own_split
        text = whole_text(line, pair.start(2))
        found.append(_Printed(name, "" if is_step or own_split else near, text))
    return found


def _of_first_rank(lines: Sequence[_Line], step_names: Collection[str]) -> list[_Line]:
    """The lines with the values of the first rank that has printed each name."""
    ranks: dict[str, int] = {}
    for line in lines:
        for name in line.values:
            ranks[name] = min(ranks.get(name, line.rank), line.rank)
    first = min(ranks.values(), default=UNNAMED)
    kept = []
    for line in lines:
        own = {name: value for name, value in line.values.items() if ranks[name] == line.rank}
        has_result = any(name.lower() not in step_names for name in own)
        if has_result or line.rank == first:
            steps = {name: value for name, value in line.values.items() if name.lower() in step_names}
            line.values = {**steps, **own}
            kept.append(line)
    return kept


def _shorten_names(lines: Sequence[_Line]) -> None:
    """Leave out the words before the split of a name, as in "done val loss", unless they tell two values apart.

    A program that prints "val loss" and "ema val loss" has two values, and "best val loss" is one of another step.
    """
    printed_names = {name for line in lines for name in line.values}
    plain_names: dict[str, set[str]] = {}
    for name in printed_names:
        plain_names.setdefault(short_name(name), set()).add(plain_name(name))
    chosen = {}
    for name in printed_names:
        short = short_name(name)
        chosen[name] = plain_name(name)
        if len(plain_names[short]) == 1:
            chosen[name] = short
    for line in lines:
        line.values = {chosen[name]: value for name, value in line.values.items()}


def _read_texts(lines: Sequence[_Line], step_names: Collection[str]) -> None:
    """Replace the texts of numbers by numbers. Texts of steps that are no numbers are left out."""
    texts: dict[str, list[str]] = {}
    for line in lines:
        for name, value in line.values.items():
            if isinstance(value, str):
                texts.setdefault(name, []).append(value)
    numbers = {name: iter(read_numbers(of_name)) for name, of_name in texts.items()}
    for line in lines:
        values: dict[str, Any] = {}
        for name, value in line.values.items():
            values[name] = value
            if isinstance(value, str):
                values[name] = next(numbers[name])
                if name.lower() in step_names:
                    values[name] = step_of(value)
        line.values = {name: value for name, value in values.items() if value is not None}


def _mark_contradictions(lines: Sequence[_Line], step_names: Collection[str]) -> None:
    """Mark other values in a line that is like the one before it, and has the same step: two processes print them."""
    for before, line in reversed([*pairwise(lines)]):  # from the end, so that the values of `before` are as printed
        if not _are_alike(before, line, step_names):
            continue
        for name, value in line.values.items():
            earlier = before.values.get(name, value)
            if repr(earlier) != repr(value) and name.lower() not in step_names:
                reason = "two lines are alike and have the same step; let one process print it"
                line.values[name] = Unclear(f"{earlier} and {value}", reason)


def _are_alike(before: _Line, line: _Line, step_names: Collection[str]) -> bool:
    """Whether two lines that stay in a terminal have the same step, and differ only as those of two processes do."""
    if before.is_overwritten or line.is_overwritten:
        return False
    steps = [_steps_in(each.values, step_names) for each in (before, line)]
    if not steps[0] or steps[0] != steps[1]:
        return False
    return OF_PROCESS.sub("", before.text) == OF_PROCESS.sub("", line.text)


def _steps_in(values: Mapping[str, Any], step_names: Collection[str]) -> dict[str, Any]:
    """The steps among some values."""
    return {name: value for name, value in values.items() if name.lower() in step_names}

"""The files with the results of a training program, and the rows of each attempt in them."""

import glob
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairbench.arenas.program import ProgramOptions, own_folder
from fairbench.training.event_files import tensorboard_rows, wandb_rows
from fairbench.training.printed_lines import printed
from fairbench.training.text_results import Row, delimited, json_document, json_lines

OUTPUT = "output.txt"
"""The file with the output of the program, among fairbench's own files of a trial."""
State = tuple[int, str, int]
"""The size of a file, the sha256 of its content, and the nanosecond in which it was last written.

A program that gives the same numbers writes the same content again: only the time tells that it has written.
"""
States = Mapping[str, Sequence[Any]]
"""The `State` of each file at the beginning of an attempt, by its name; a list where it was read from JSON."""
TABLES = (".csv", ".tsv")
LINES = (".jsonl", ".ndjson")
DOCUMENT = ".json"


@dataclass(frozen=True)
class Folders:
    """The folders of a trial of a program.

    Attributes:
        out: the folder that the program gets as `{out}`.
        works_in: the folder in which the program runs.
    """

    out: Path
    works_in: Path = Path()

    @property
    def own(self) -> Path:
        """The folder of fairbench's own files."""
        return own_folder(self.out)


def pattern_of(files: Iterable[str]) -> str:
    """A pattern for the first of some files that may have results; empty without one. Folders with digits may change.

    Args:
        files: paths below the folder in which a program runs.
    """
    tables_first = sorted(files, key=lambda file: (file.endswith(DOCUMENT), file))  # JSON may have only the settings
    for file in tables_first:
        path = Path(file)
        if path.suffix in (*TABLES, *LINES, DOCUMENT, ".wandb") or "tfevents" in path.name:
            folders = ["*" if re.search(r"\d", folder) else folder for folder in path.parent.parts]
            name = "*tfevents*" if "tfevents" in path.name else path.name
            return "/".join([".", *folders, name])
    return ""


def is_elsewhere(options: ProgramOptions) -> bool:
    """Whether the files with results are not in the folder of the trial, so that other trials may write there, too."""
    return options.results.startswith(("/", "./", "../"))


def result_files(folders: Folders, options: ProgramOptions) -> dict[str, Path]:
    """The files with results that are there now, by their names: those of the program, or else its output.

    The output is read if the suite has patterns for it, or if it names no other file and there is none.
    """
    output = folders.own / OUTPUT
    printed_files = {OUTPUT: output} if output.exists() else {}
    if options.patterns:
        return printed_files
    root = folders.works_in if is_elsewhere(options) else folders.out
    found = {}
    for name in sorted(glob.glob(options.results, root_dir=root, recursive=True)):  # noqa: PTH207
        if (root / name).is_file():
            found[name] = root / name
    if not found and options.results == ProgramOptions.results:
        return printed_files
    return found


def states(files: Mapping[str, Path]) -> dict[str, State]:
    """The state of each file at the beginning of an attempt."""
    return {name: _state(file, file.read_bytes()) for name, file in files.items()}


def _state(file: Path, content: bytes) -> State:
    """The state of a file with a content."""
    return len(content), hashlib.sha256(content).hexdigest(), file.stat().st_mtime_ns


def end_last_line(file: Path) -> None:
    """Remove an incomplete last line of a text file, which a killed attempt has left."""
    if file.suffix not in (*TABLES, *LINES):
        return
    content = file.read_bytes()
    whole_lines = content.rfind(b"\n") + 1
    if whole_lines < len(content):
        file.write_bytes(content[:whole_lines])


def rows_of_attempts(
    name: str, file: Path, attempts: Sequence[States], options: ProgramOptions, ended: bool
) -> list[Iterable[Row]]:
    """The rows of a file in each attempt.

    Args:
        name: the name of the file.
        file: a file of results.
        attempts: the states of the files at the beginning of each attempt.
        options: the options of the program, with the patterns of its output.
        ended: whether the program has ended. While it runs, the last line may be incomplete.
    """
    rows: list[Iterable[Row]] = [() for _ in attempts]
    before = [known_states.get(name) for known_states in attempts]
    if file.suffix == ".wandb" or "tfevents" in file.name:
        creator = before.count(None) - 1  # the last attempt that began without the file has written all of it
        if creator >= 0:
            rows[creator] = wandb_rows(file) if file.suffix == ".wandb" else tensorboard_rows(file)
        return rows
    content = file.read_bytes()
    if file.suffix == DOCUMENT:
        writer = _last_writer(_state(file, content), before)
        if writer is not None and (ended or content.endswith(b"}")):
            rows[writer] = json_document(name, content.decode(errors="replace"))
        return rows
    begins = _begins(file, content, before)
    names = content.partition(b"\n")[0].decode(errors="replace")
    for index, (begin, end) in enumerate(pairwise([*begins, len(content)])):
        if begin is None:
            continue
        text = content[begin:end].decode(errors="replace")
        if end != len(content) or not ended:
            whole_lines = text.rfind("\n") + 1
            text = text[:whole_lines]
        first_line = content[:begin].count(b"\n") + 1
        rows[index] = _text_rows(name, file, text, first_line, names, options)
    return rows


def _last_writer(now: State, before: Sequence[Sequence[Any] | None]) -> int | None:
    """The last attempt at whose beginning a file had another state than now, or was missing; None without one."""
    for attempt in reversed(range(len(before))):
        state = before[attempt]
        if state is None or tuple(state) != now:
            return attempt
    return None


def _text_rows(name: str, file: Path, text: str, first_line: int, names: str, options: ProgramOptions) -> Iterable[Row]:
    """The rows of a part of a text file. `names` is the first line of the file."""
    if file.suffix in TABLES:
        return delimited(name, text, first_line, names)
    if file.suffix in LINES:
        return json_lines(name, text, first_line)
    return printed(name, text, first_line, options)


def _begins(file: Path, content: bytes, before: Sequence[Sequence[Any] | None]) -> list[int | None]:
    """The position at which the part of each attempt begins; None for an attempt whose rows were replaced.

    An attempt appends to the file, which then still begins with what was there before, or writes it from its beginning.

    Args:
        file: the file.
        content: the content of the file.
        before: the state of the file at the beginning of each attempt; None where there was no file.
    """
    begins: list[int | None] = []
    for state in before:
        begin = 0
        if state is not None:
            size, digest, time = _state(file, content[: state[0]])
            is_same_again = size == len(content) and time != state[2]
            if (size, digest) == (state[0], state[1]) and not is_same_again:
                begin = size
        if begin == 0:
            begins = [None for _ in begins]
        begins.append(begin)
    return begins


def files_in(folder: Path) -> list[str]:
    """The names of the files that a program has written into its folder."""
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())

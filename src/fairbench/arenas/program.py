"""A training program as an arena: the keys of its table in a suite, its command, and the files that it depends on."""

import glob
import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from fairbench.arenas.base import Arena, ArenaFacts
from fairbench.common.coercion import KeyPath, Wrong, build
from fairbench.common.errors import UsageError, nearest

TASK = "fairbench.arenas.program:Program"
"""The task of every arena with a program."""
FOLDER = "FAIRBENCH_TRIAL"
"""The environment variable that names the trial's folder, for the program and all processes that it starts."""
ABOUT = "trial.json"
"""The file that describes the trial for its program, in the folder of fairbench's own files."""
ASKED = "asked-"
"""The beginning of the name of an empty file that says what the program has asked `fairbench.trial` for."""
RESULT = "result"
"""The name that marks the report of `fairbench.trial.Trial.result`."""
VARIABLE = re.compile(r"[A-Za-z_]\w*=")
"""The beginning of a word that sets an environment variable."""
OF_A_SHELL = ("&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1", "cd", "source", "export")
"""Words that only a shell understands."""
OF_A_STUDY = ("trials", "claims", "drivers")
"""Folders that every study has."""
PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
"""A placeholder in a word of the command, as `{lr}`, which a value of the trial replaces."""
PYTHON_FILES = ":(top)*.py"
"""The Python files of a whole repository, for git."""
VARIANT = "{variant}"
"""The placeholder for the words of a variant. Without it they stand at the end of the command."""


@dataclass(frozen=True)
class ProgramOptions:
    """The keys of an arena's table that describe its program.

    Attributes:
        program: the command, with placeholders such as `{lr}`; it runs without a shell, in the working directory.
        metrics: every metric, and whether its minimum or its maximum is best.
        code: patterns of files; a change of one makes every trial a new one. By default all files of the program's
            folder that git tracks, and the Python files of the repository that git does not ignore; without git the
            Python files of the folder. The files that the command names always count.
        gpus: GPUs of each trial.
        cores: CPU cores of each trial.
        results: a pattern of the files below `{out}` with the results: JSON lines, `*.json`, `*.csv`, `*.tsv`,
            TensorBoard's `*tfevents*`, W&B's `*.wandb`, or text as it is printed. Without the default file, what the
            program prints is read.
            A pattern that begins with "./" or "/" is one in the folder in which the program runs.
        patterns: regular expressions with one group, by key as "val/loss", which read what the program prints.
        keys: the names of "step", "train/loss", "val/NAME" and "test/NAME", where they differ.
        at: "last" for the metrics of the last report, "best" for the report with the best validation value.
        own_length: whether the program trains as long as it always does, and gets no number of steps.
        seed_env: an environment variable that gets the seed.
        seeded: whether the seed of a trial determines its numbers, so that equal seeds make pairs.
        parameters: of a ladder, the parameters of the model at each size.
        size: of the model on a ladder; 0 without one.
    """

    program: str
    metrics: dict[str, Literal["min", "max"]]
    code: list[str] = field(default_factory=list)
    gpus: int = 0
    cores: int = 1
    results: str = "metrics.jsonl"
    patterns: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    at: Literal["last", "best"] = "last"
    own_length: bool = False
    seed_env: str = ""
    seeded: bool = True
    parameters: dict[str, int] = field(default_factory=dict)
    size: int = 0

    @property
    def names(self) -> dict[str, str]:
        """The name of each reported value in the files of results, by its key, as "val/loss"."""
        reported = ["step", "train/loss"]
        for split in ("val", "test"):
            reported += [f"{split}/{metric}" for metric in self.metrics]
        return {key: self.keys.get(key, key) for key in reported}


class Program(Arena):
    """A training program of a user; `fairbench.training.program` runs it."""

    def sized(self, model: Mapping[str, Any], size: int) -> tuple[dict[str, Any], int]:
        """The options for a size of a ladder, which the program gets as `{size}`, and the parameters by the suite."""
        parameters = model["parameters"].get(str(size))
        if parameters is None:
            raise UsageError(f"has {size}, whose parameters are missing, as in parameters = {{ {size} = 1000000 }}")
        return {**model, "size": size}, parameters


def cores_and_gpus(task: str, model: Mapping[str, Any]) -> tuple[int, int]:
    """The CPU cores and the GPUs that a trial asks for.

    A trial without a program asks for one core and no certain GPUs: it takes the device of the study.
    """
    if task != TASK:
        return 1, 0
    return model["cores"], model["gpus"]


def program_table(path: KeyPath, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Complete the table of an arena with a program, so that it has the keys of any other arena.

    Args:
        path: the path of the table in the suite, for errors.
        table: the table in the suite.

    Raises:
        Wrong: a value is not allowed.
    """
    program_keys = {option.name for option in fields(ProgramOptions)}
    given = dict(table.get("model", {}))  # a suite that is completed already has the options there
    others = {}
    for key, value in table.items():
        if key in program_keys:
            given[key] = value
        else:
            others[key] = value
    options: ProgramOptions = build(ProgramOptions, given, path)
    _check_options(path, options)
    data = build(dict[str, list[str]], table.get("data", {}), (*path, "data"))
    if data.keys() - {"files"}:
        raise Wrong((*path, "data"), f'must be as {{ files = ["corpus/*.txt"] }}, got {data}')
    facts = ArenaFacts(f"program {options.program}", options.metrics, kind="program")
    return {"batch_size": 0, **others, "task": TASK, "model": asdict(options), "facts": asdict(facts)}


def _check_options(path: KeyPath, options: ProgramOptions) -> None:
    """Raise Wrong with the path of the key if a value is not allowed."""
    try:
        words = words_of(options.program)
    except ValueError as error:
        raise Wrong((*path, "program"), f"must be a command: {error}; got {options.program!r}") from error
    if not words:
        raise Wrong((*path, "program"), "must be a command, as 'python train.py --lr {lr}', got an empty one")
    for word in words:
        if word in OF_A_SHELL:
            remedy = "write bash -c '...' around it, or env -C FOLDER COMMAND for another folder"
            raise Wrong((*path, "program"), f"has {word!r}, and there is no shell: {remedy}; got {options.program!r}")
    if not options.metrics:
        raise Wrong((*path, "metrics"), 'must name at least one metric, as { loss = "min" }')
    if options.gpus < 0:
        raise Wrong((*path, "gpus"), f"must be at least 0, got {options.gpus}")
    if options.cores < 1:
        raise Wrong((*path, "cores"), f"must be at least 1, got {options.cores}")
    for key, pattern in options.patterns.items():
        _check_pattern((*path, "patterns", key), pattern)
    for key in options.patterns.keys() - options.names.keys():
        raise Wrong((*path, "patterns", key), f"must be one of {', '.join(options.names)}{nearest(key, options.names)}")
    for key in options.keys.keys() - options.names.keys():
        raise Wrong((*path, "keys", key), f"must be one of {', '.join(options.names)}{nearest(key, options.names)}")


def _check_pattern(path: KeyPath, pattern: str) -> None:
    """Raise Wrong unless a text is a regular expression with one group."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise Wrong(path, f"must be a regular expression: {error}; got {pattern!r}") from error
    if groups != 1:
        raise Wrong(path, f"must have one group, as 'val loss ([0-9.]+)', got {pattern!r}")


def own_folder(folder: Path) -> Path:
    """The folder of fairbench's own files of a trial, next to the folder of its program, which begins empty."""
    return folder.with_name(f"{folder.name}.trial")


def words_of(program: str, args: str = "") -> list[str]:
    """The words of a command with those of a variant, before any placeholder is replaced.

    Variables before the command, as in `LEVEL=1 python train.py`, are set as a shell sets them.

    Args:
        program: the command.
        args: the words of the variant. Where `{variant}` is a part of a word, they are put there as they are.
    """
    given = shlex.split(program)
    own = shlex.split(args)
    if given and VARIABLE.match(given[0]):
        given.insert(0, "env")
    if VARIANT not in program:
        return [*given, *own]
    words = []
    for word in given:
        if word == VARIANT:
            words += own
        else:
            words.append(word.replace(VARIANT, args))
    return words


def with_texts(words: Iterable[str], options: Mapping[str, Any]) -> list[str]:
    """The words of a command, where a word `{name}` of an option with a text is replaced by the words of that text.

    The text may so be empty, or several flags. `{name}` within a longer word stays, and is replaced by the whole text.

    Raises:
        UsageError: the text cannot be split into words.
    """
    replaced: list[str] = []
    for word in words:
        placeholder = PLACEHOLDER.fullmatch(word)
        value = options.get(placeholder[1]) if placeholder else None
        if not isinstance(value, str):
            replaced.append(word)
            continue
        try:
            replaced += shlex.split(value)
        except ValueError as error:
            raise UsageError(f"the value of {word} must be words of a command: {error}; got {value!r}") from error
    return replaced


def command(words: Iterable[str], values: Mapping[str, Any], remedy: str) -> list[str]:
    """The words of a command, with values in place of the placeholders.

    Args:
        words: the words of the command.
        values: the values of a trial by name; None for a value that the trial does not set.
        remedy: what sets further values, for errors.

    Raises:
        UsageError: the command has a placeholder that the trial does not set.
    """

    def value_of(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        value = values.get(name)
        if value is None:
            known = [other for other, each in values.items() if each is not None]
            reason = f"the command has {placeholder[0]}, which this trial does not set"
            suggestion = nearest(name, known)
            if suggestion:
                raise UsageError(f"{reason}{suggestion}")
            raise UsageError(f"{reason} (known: {', '.join(known)}); correct it, or give it a value: {remedy}")
        return str(value)

    return [PLACEHOLDER.sub(value_of, word) for word in words]


def code_of(options: ProgramOptions, args: str = "", folder: Path = Path()) -> dict[str, str]:
    """The beginning of the sha256 of each file of a program's code, by the path of the file.

    Args:
        options: the options of the program.
        args: the words of a variant, which may name further files.
        folder: the folder in which the program runs. Paths are relative to it.
    """
    first, *others = words_of(options.program, args)
    sources = [word for word in others if "{" not in word and (folder / word).is_file()]
    files = set(sources)
    if _is_own(first, folder):
        files.add(first)
    if options.code:
        files.update(matched(options.code, "code", folder))
    else:
        files.update(_known_files(sources, folder))
    hashes = {}
    for file in sorted(files):
        hashes[Path(file).as_posix()] = content_hash([file], folder)[:16]
    return hashes


def _is_own(word: str, folder: Path) -> bool:
    """Whether the first word of a command is a script or a binary of the user, in a relative path.

    The interpreter of an environment is none: it is a link to one that is installed.
    """
    file = folder / word
    if Path(word).is_absolute() or not file.is_file():
        return False
    return file.read_bytes().startswith(b"#!") or not file.is_symlink()


def _known_files(sources: list[str], folder: Path) -> list[str]:
    """The files of the program's folder that git tracks, and every Python file of its repository.

    Those of submodules count, and Python files that git does not know yet, but none that git ignores. Without git, the
    Python files of the program's folder.
    """
    of_program = Path(sources[0]).parent if sources else Path()
    tracked = _listed(folder, of_program, "--recurse-submodules")
    tracked += _listed(folder, of_program, "--recurse-submodules", "--", PYTHON_FILES)
    untracked = _listed(folder, of_program, "--others", "--exclude-standard", "--", PYTHON_FILES)
    known = [*tracked, *_without_copies(folder, untracked, tracked)]
    if not any(_is_below(file, of_program) for file in known):
        found = [file.relative_to(folder) for file in (folder / of_program).rglob("*.py")]
        visible = [file for file in found if "/." not in f"/{file.as_posix()}"]
        known += _without_copies(folder, visible)
    return [str(file) for file in known]


def _is_below(file: Path, folder: Path) -> bool:
    """Whether a relative path is one below a relative folder."""
    return not os.path.relpath(file, folder).startswith(os.pardir)


def _listed(folder: Path, of_program: Path, *options: str) -> list[Path]:
    """The files that `git ls-files` lists in the folder of a program, and that exist; none without git."""
    git = ["git", "-C", str(folder / of_program), "ls-files", "-z", *options]
    try:
        listed = subprocess.run(git, capture_output=True, check=True).stdout.decode(errors="surrogateescape")
    except (OSError, subprocess.CalledProcessError):
        return []
    files = [Path(os.path.normpath(of_program / name)) for name in listed.split("\0") if name]
    return [file for file in files if (folder / file).is_file()]


def _without_copies(folder: Path, files: Iterable[Path], originals: Iterable[Path] = ()) -> list[Path]:
    """The files that no trial has written: outside of folders of studies, and no copy of a file nearer to the top.

    A copy of one of the `originals` is left out too.
    """
    seen = {(folder / file).read_bytes() for file in originals if file.suffix == ".py"}
    kept = []
    for file in sorted(files, key=lambda file: (len(file.parts), file)):
        is_of_study = any(_is_study(folder / parent) for parent in file.parents)
        content = (folder / file).read_bytes()
        if not is_of_study and content not in seen:
            seen.add(content)
            kept.append(file)
    return kept


def _is_study(folder: Path) -> bool:
    """Whether a folder is that of a study."""
    return all((folder / name).is_dir() for name in OF_A_STUDY)


def matched(patterns: Iterable[str], key: str, folder: Path = Path()) -> list[str]:
    """The files that match patterns, sorted.

    Args:
        patterns: shell patterns.
        key: the key of the patterns in the suite, for errors.
        folder: the folder to which the patterns and the paths of the files are relative.

    Raises:
        UsageError: a pattern matches no file.
    """
    all_files: list[str] = []
    for pattern in patterns:
        found = glob.glob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207
        files = [file for file in found if (folder / file).is_file()]
        if not files:
            raise UsageError(f"{key}: {pattern!r} matches no file in {folder.absolute()}; correct the pattern")
        all_files += files
    return sorted(set(all_files))


def content_hash(files: Iterable[str], folder: Path = Path()) -> str:
    """The sha256 of the names and contents of files; empty without files. Names are relative to a folder."""
    listed = list(files)
    if not listed:
        return ""
    sha = hashlib.sha256()
    for file in listed:
        sha.update(f"{Path(file).as_posix()}\n".encode())
        with (folder / file).open("rb") as content:
            while block := content.read(1 << 20):
                sha.update(block)
    return sha.hexdigest()

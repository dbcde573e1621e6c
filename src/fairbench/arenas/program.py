"""A training program as an arena: the keys of its table in a suite."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from fairbench.arenas.base import Arena, ArenaFacts
from fairbench.arenas.program_command import ProgramCommand
from fairbench.common.coercion import KeyPath, Wrong, build
from fairbench.common.errors import UsageError, nearest

TASK = "fairbench.arenas.program:Program"
"""The task of every arena with a program."""
PROGRAM_SUITE = "program"
"""The name of the included suite of any training program, and of its arena."""
FOLDER = "FAIRBENCH_TRIAL"
"""The environment variable that names the trial's folder, for the program and all processes that it starts."""
ABOUT = "trial.json"
"""The file that describes the trial for its program, in the folder of fairbench's own files."""
ASKED = "asked-"
"""The beginning of the name of an empty file that says what the program has asked `fairbench.trial` for."""
RESULT = "result"
"""The name that marks the report of `fairbench.trial.Trial.result`."""
OF_A_SHELL = ("&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1", "cd", "source", "export")
"""Words that only a shell understands."""
VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""The name of an environment variable."""


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
        """The name of each reported value in the files of results, by its key, such as "val/loss"."""
        reported = ["step", "train/loss"]
        for split in ("val", "test"):
            reported += [f"{split}/{metric}" for metric in self.metrics]
        return {key: self.keys.get(key, key) for key in reported}

    def command(self, variant: Mapping[str, Any] | None = None) -> ProgramCommand:
        """The command, with what was given for a variant, see `VariantPlan.words`."""
        given = variant or {}
        return ProgramCommand(self.program, given.get("args", ""), given.get("env", {}))


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
        words = options.command().words
    except ValueError as error:
        raise Wrong((*path, "program"), f"must be a command: {error}; got {options.program!r}") from error
    if not words:
        raise Wrong((*path, "program"), "must be a command, such as 'python train.py --lr {lr}', got an empty one")
    for word in words:
        if word in OF_A_SHELL:
            remedy = "write bash -c '...' around it, or env -C FOLDER COMMAND for another folder"
            raise Wrong((*path, "program"), f"has {word!r}, and there is no shell: {remedy}; got {options.program!r}")
    if options.seed_env and not VARIABLE.fullmatch(options.seed_env):
        raise Wrong(
            (*path, "seed_env"),
            f"must be a variable's name of letters, digits and '_', such as SEED; got {options.seed_env!r}",
        )
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
        raise Wrong(path, f"must have one group, such as 'val loss ([0-9.]+)', got {pattern!r}")


def own_folder(folder: Path) -> Path:
    """The folder of fairbench's own files of a trial, next to the folder of its program, which begins empty."""
    return folder.with_name(f"{folder.name}.trial")

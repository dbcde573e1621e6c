"""Several files as one table: the folder or the name of each says the optimizer and the seed of its runs."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fairbench.analysis.tables.column_names import ARENA, OPTIMIZER, SEED, plain_name
from fairbench.analysis.tables.labels import is_optimizer
from fairbench.analysis.tables.readers.name_parts import labels_by_pattern, labels_of_data_sets, labels_of_grid
from fairbench.analysis.tables.readers.run_settings import SETTINGS, labels_of_settings
from fairbench.analysis.tables.readers.sheet import Row, Sheet
from fairbench.common.errors import UsageError
from fairbench.common.formatting import some

TABLES = (
    *("metrics.csv", "results.csv", "progress.csv", "history.csv", "log.csv", "training_log.csv", "scores.csv"),
    *("metrics.jsonl", "metrics.json", "results.json", "history.json", "trainer_state.json", "eval_results.json"),
)
"""The names that programs give the file with the results of a run."""
POSSIBLE = (".json", ".parquet", ".feather", ".txt", ".md", ".gz")
"""The endings of files that may be tables, but often are not, so that they are not read from a folder unasked."""
RUN = "run"
"""The name of the column with the part of each path that differs."""
SAYS_NOTHING = re.compile(
    r"(?:versions?|runs?|trains?|exps?|experiments?|jobs?|trials?|folds?|seeds?|outputs?|out|logs?|results?|metrics?"
    r"|checkpoints?|lightning_logs|detect|events|s|v|r)?[\s_.-]*\d*(?:[\s_.-]\d+)*",
    re.IGNORECASE,
)
"""A part of a path that says no optimizer, such as "version_0"."""
OF_TENSORBOARD = re.compile(r"run-(?P<run>.+)-tag-(?P<tag>.+)")
"""The name that TensorBoard gives the file of a tag of a run."""
CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def files_of(source: object) -> list[Path]:
    """The files of a folder with the results of runs, or those of patterns or paths; empty for another source.

    Args:
        source: a folder, a pattern such as "runs/*.csv", or a list of files, folders and patterns.

    Raises:
        UsageError: a folder has files of several names, so that it is not certain which ones have the results.
    """
    if isinstance(source, str | os.PathLike) and source != "-" and Path(source).is_dir():
        return _files_of_folder(Path(source))
    if isinstance(source, str) and "*" in source and not Path(source).exists():
        return _files_of_pattern(Path(source))
    if not isinstance(source, list | tuple) or not all(isinstance(path, str | os.PathLike) for path in source):
        return []
    files: list[Path] = []
    for path in source:
        files += files_of(path) or [Path(path)]
    return files


def _files_of_pattern(pattern: Path) -> list[Path]:
    """The files that a pattern matches, which no shell has read."""
    root = Path(pattern.anchor)
    return sorted(root.glob(pattern.relative_to(root).as_posix()))


def _files_of_folder(folder: Path) -> list[Path]:
    """The files with results in a folder and the folders in it: those of the usual name that most of them have.

    Without a usual name they are all files whose endings are those of tables.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    counts = Counter(path.name for path in files if path.name in TABLES)
    if not counts:
        return [path for path in files if path.suffix in (".csv", ".jsonl", ".tsv")]
    most = max(counts.values())
    names = [name for name, count in counts.items() if count == most]
    if len(names) > 1:
        ways = " or ".join(f"{folder}/*/{name}" for name in names)
        raise UsageError(f"{folder} has files of several names; give those with the results, as {ways}")
    return _last_checkpoints(path for path in files if path.name == names[0])


def _last_checkpoints(files: Iterable[Path]) -> list[Path]:
    """The file of each run. Of a run with files in several checkpoints it is that of the last one."""
    last: dict[Path, Path] = {}
    for path in files:
        match = CHECKPOINT.fullmatch(path.parent.name)
        run = path.parent.parent if match else path.parent
        if run not in last or _checkpoint(path) > _checkpoint(last[run]):
            last[run] = path
    return list(last.values())


def pattern_of_files(folder: Path) -> str:
    """A pattern of the files that may be tables in a folder without files that are certainly so; empty without any.

    Most of the possible files lie at its depth, and have its ending.
    """
    files = [path for path in folder.rglob("*") if path.suffix in POSSIBLE and path.name not in SETTINGS]
    if not files:
        return ""
    places = Counter((len(path.relative_to(folder).parts), path.suffix) for path in files)
    (depth, suffix), _ = places.most_common(1)[0]
    return f"{folder}/{'*/' * (depth - 1)}*{suffix}"


def _checkpoint(path: Path) -> float:
    """The number of the checkpoint that a file lies in. The folder of the run itself comes after all of them."""
    match = CHECKPOINT.fullmatch(path.parent.name)
    return float(match[1]) if match else float("inf")


def joined(files: Sequence[Path], sheets: Sequence[Sheet], name: str) -> Sheet:
    """One table with the rows of all files, and columns for what their paths, or settings in their folders, say.

    Args:
        files: the files.
        sheets: the table of each file.
        name: a regular expression with named groups, such as "(?P<optimizer>...)", that is looked for in each path;
            empty for the part of the paths that differs.

    Raises:
        UsageError: the expression is wrong or is not in a path, or no file says its optimizer.
    """
    columns = dict.fromkeys(column for sheet in sheets for column in sheet.columns)
    paths = [file.as_posix() for file in files]
    parts = _differing_parts(files)
    labels = labels_by_pattern(paths, name) if name else _labels(files, parts, columns)
    label_columns = dict.fromkeys(column for label in labels for column in label)
    rows = []
    for label, sheet in zip(labels, sheets, strict=True):
        for row in sheet.rows:
            texts = {**dict.fromkeys(columns, ""), **row.cells, **label}
            rows.append(Row(texts, row.location))
    notes = tuple(dict.fromkeys(note for sheet in sheets for note in sheet.notes))
    all_columns = [*label_columns, *(column for column in columns if column not in label_columns)]
    table = Sheet(f"{len(files)} files", columns=all_columns, rows=rows, notes=notes, is_joined=True)
    if RUN in label_columns:
        return table  # what the differing parts say is found later, from this column
    return replace(table, example=f"path {parts[0]}", origins=labels[0])


def _labels(files: Sequence[Path], parts: Sequence[str], columns: Mapping[str, None]) -> list[Mapping[str, str]]:
    """The part of each path that differs, and the optimizer and the seed among the settings in its folder.

    If the parts of the paths form a grid, they are the optimizer, the arena and the seed instead.

    Args:
        parts: the part of each path that differs.
        columns: the columns of the tables.

    Raises:
        UsageError: neither the tables, nor the paths, nor the settings say the optimizer, or the paths may say it in
            two parts.
    """
    known = {plain_name(column) for column in columns}
    names = parts
    of_tensorboard = [OF_TENSORBOARD.fullmatch(name) for name in names]
    if all(of_tensorboard):
        tags = [{"tag": match["tag"]} for match in of_tensorboard if match]
        names = [match["run"] for match in of_tensorboard if match]
    else:
        tags = [{} for _ in names]
    labels = _labels_of_runs(files, names, known)
    return [{**tag, **label} for tag, label in zip(tags, labels, strict=True)]


def _labels_of_runs(files: Sequence[Path], names: Sequence[str], known: set[str]) -> list[Mapping[str, str]]:
    """What the settings in the folders of runs, or else the names of the runs say; see `_labels`."""
    of_settings = labels_of_settings(files, known)
    if all("optimizer" in label for label in of_settings):
        return [{RUN: name, **label} for name, label in zip(names, of_settings, strict=True)]
    whole_names: list[Mapping[str, str]] = [{RUN: name} for name in names]
    if known & set(OPTIMIZER):
        return whole_names
    if all(SAYS_NOTHING.fullmatch(name) for name in names):
        raise UsageError(
            f"no optimizer is in the paths {some(names)}; rename the folders, such as adamw-1, or give --name "
            "'(?P<optimizer>...)...(?P<seed>...)', a regular expression of the paths"
        )
    grid = labels_of_grid(names, [file.as_posix() for file in files], f"{len(files)} files: their paths")
    if not grid and not any(map(is_optimizer, names)):
        grid = labels_of_data_sets(names)  # columns of the tables may be the optimizers
    if not grid:
        return whole_names
    in_columns = [role for role, words in (("arena", ARENA), ("seed", SEED)) if known & set(words)]
    return [{role: text for role, text in label.items() if role not in in_columns} for label in grid]


def _differing_parts(files: Sequence[Path]) -> list[str]:
    """The paths without the folders at their beginning, and without the names at their end, that all share."""
    paths = [file.with_suffix("").parts for file in files]
    while _share_part(paths, 0):
        paths = [path[1:] for path in paths]
    while _share_part(paths, -1):
        paths = [path[:-1] for path in paths]
    return ["/".join(path) for path in paths]


def _share_part(paths: Sequence[Sequence[str]], position: int) -> bool:
    """Whether all paths have the same part at a position, and are not empty without it."""
    if any(len(path) < 2 for path in paths):
        return False
    parts = {path[position] for path in paths}
    return len(parts) == 1

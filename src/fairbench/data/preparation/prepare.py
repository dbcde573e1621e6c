"""From the files of a dataset to its prepared arrays: find, verify, read, split and write them, all or nothing."""

import errno
import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fairbench.common.errors import UsageError
from fairbench.common.formatting import some
from fairbench.common.hashing import digest
from fairbench.common.terminal import say
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.raw import SPLITS, Images, Texts
from fairbench.data.formats.source_files import SourceFiles, size_of, verify_file
from fairbench.data.preparation import write_images, write_texts
from fairbench.data.preparation.locate import PrepareOptions, find_source_files, outdated
from fairbench.data.preparation.progress_bar import progress_bar
from fairbench.data.preparation.staging import StagingFolder, check_replaceable
from fairbench.data.prepared import FORMAT, read_folder

MAKERS = ("numpy", "pillow", "pyarrow", "tokenizers")
"""The packages whose versions may affect the arrays."""
VERIFIED = "every file has its known hash"
NOT_VERIFIED = "a file has no known hash, or a different one: nothing vouches for the data"


def prepare(config: DatasetConfig, options: PrepareOptions) -> None:
    """Prepare a dataset, unless it is already prepared.

    Arrays of unverified files are prepared again once verified files are there.

    Raises:
        UsageError: files are missing, wrong or damaged, or the folder cannot be written.
    """
    target = config.folder(options.data_root).resolve()  # a link to another disk stays
    if _is_current(config, options, target):
        return
    with _exclusive(target) as waited:
        if waited and _is_current(config, options, target):
            return  # the other process has prepared the dataset
        check_replaceable(target)
        source = find_source_files(config, options)
        _make(config, source, target, options.unverified)


@contextmanager
def _exclusive(target: Path) -> Iterator[bool]:
    """Keep other processes from preparing the same folder. Yields whether another process was preparing it before.

    The lock ends with the process, even if the process is killed.
    """
    lock = FileLock(target.parent / f".{target.name}.lock")
    waited = False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        say(f"{target.name}: another process is preparing it; waiting for it to finish")
        lock.acquire()
        waited = True
    except OSError as error:
        raise UsageError(
            f"{target} cannot be prepared, since {target.parent} cannot be written ({error.strerror}); "
            "make it writable, or choose another --data-root"
        ) from error
    try:
        yield waited
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UsageError(
            f"the disk is full, {target} is not finished; free some space and run the same command again: "
            "finished files are kept"
        ) from error
    finally:
        lock.release()


def _is_current(config: DatasetConfig, options: PrepareOptions, target: Path) -> bool:
    """Whether the prepared arrays can be kept: they are intact, and the files here would not give better ones.

    The answer is printed, with its reason.
    """
    if options.again or not target.exists():
        return False
    reason = ""
    is_verified = True
    try:
        prepared = read_folder(target, config.options)
        prepared.check_content()
    except UsageError as error:
        reason = str(error)
    else:
        is_verified = prepared.manifest["verified"]
        if not is_verified:
            reason = outdated(config, options, prepared.manifest["files"])
    if reason:
        say(f"{config.label}: prepared again, since {reason}")
        return False
    remedy = ""
    if not is_verified and not config.user_path:
        remedy = f", but not verified; {config.by_hand(options.data_root)}"
    say(f"{config.label}: is already prepared in {target}{remedy}")
    return True


def _make(config: DatasetConfig, source: SourceFiles, target: Path, unverified: bool) -> None:
    """Verify the files, write the arrays and the manifest, and publish the finished folder."""
    is_own = source.kind == "own"
    raw: Images | Texts | None = None
    if is_own:
        # A user's files have no known hash. Reading them first shows faults of the folder before anything else.
        raw = _read(config, source)
    file_facts = _verified_files(config, source, accept_all=unverified or is_own)
    origin = _origin(config, source, file_facts)
    if not origin["verified"] and not is_own:
        say(f"{config.label}: not verified: {NOT_VERIFIED}")
    staging = StagingFolder(target, digest(origin))
    if raw is None:
        raw = _read(config, source)
    if isinstance(raw, Images):
        names, facts = write_images.write(raw, staging)
    else:
        names, facts = write_texts.write(raw, staging)
    for reason, count in facts["counts"]["dropped"].items():
        if count:
            say(f"  left out, {reason}: {count}")
    if staging.reused:
        say(f"  reused from an interrupted preparation: {', '.join(staging.reused)}")
    staging.publish(names, {**origin, **facts})
    summary = _summary(raw, facts["counts"]["examples"])
    say(f"{config.label}: prepared in {target}: {summary}")


def _read(config: DatasetConfig, source: SourceFiles) -> Images | Texts:
    """The raw examples of a dataset. Raises `UsageError` with a remedy if the files are not those of the dataset."""
    dataset = importlib.import_module(f"fairbench.data.datasets.{config.info.module}")
    try:
        raw: Images | Texts = dataset.read(source, config.options)
    except UsageError as error:
        if source.kind == "own":
            raise  # the error already says how to correct the user's files
        raise UsageError(f"{error}; {source.remedy}") from error
    return raw


def _verified_files(config: DatasetConfig, source: SourceFiles, accept_all: bool) -> list[dict[str, Any]]:
    """The entry of every file in the manifest, see `verify_file`. Raises `UsageError` if a file is not accepted."""
    paths = ", ".join(str(file.path) for file in source.files)
    say(f"{config.label}: reading {paths}")
    size = sum(size_of(file.path) for file in source.files)
    with progress_bar("check", size, "bytes") as advance:
        return [verify_file(file, source.remedy, accept_all, advance) for file in source.files]


def _origin(config: DatasetConfig, source: SourceFiles, files: list[dict[str, Any]]) -> dict[str, Any]:
    """The part of the manifest that is known before the examples are read. It determines everything else."""
    verified = all(file["agrees"] for file in files)
    return {
        "format": FORMAT,
        "dataset": config.dataset,
        "options": dict(config.options),
        "title": config.info.title,
        "license": config.info.license,
        "citation": config.info.citation,
        "source": source.kind,
        "repository": config.info.repository if source.kind == "hub" else "",
        "revision": source.revision,
        "files": files,
        "verified": verified,
        "verification": VERIFIED if verified else NOT_VERIFIED,
        "versions": {name: metadata.version(name) for name in MAKERS},
    }


def _summary(raw: Images | Texts, examples: Mapping[str, int]) -> str:
    """The number of examples in each split, and the classes if there are any."""
    summary = ", ".join(f"{split} {examples[split]:,}" for split in SPLITS)
    if isinstance(raw, Images) and raw.classes:
        summary += f"; classes: {some(raw.classes)}"
    return summary

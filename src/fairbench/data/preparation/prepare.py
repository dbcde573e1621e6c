"""From the files of a dataset to its prepared arrays: find, verify, read, split and write them, all or nothing."""

import errno
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

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
"""Distributions whose versions may affect the arrays."""
VERIFICATION = {
    True: "every file has its known hash",
    False: "a file has no known hash, or a different one: nothing vouches for the data",
}


def prepare(config: DatasetConfig, options: PrepareOptions) -> None:
    """Prepare a dataset, unless it is prepared already; verified files replace those that are not."""
    target = config.folder(options.data_root).resolve()  # a link to another disk stays
    if _is_current(config, options, target):
        return
    with _exclusive(target) as waited:
        if waited and _is_current(config, options, target):
            return
        check_replaceable(target)
        _make(config, find_source_files(config, options), target, options.unverified)


@contextmanager
def _exclusive(target: Path) -> Iterator[bool]:
    """Keep other processes from preparing the same folder; yields whether another one was preparing it.

    The lock ends with the process, however it ends.
    """
    lock, waited = FileLock(target.parent / f".{target.name}.lock"), False
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
    """Whether intact arrays are prepared, from a user's files as they are now, or from files as good as those here."""
    if options.again or not target.exists():
        return False
    try:
        prepared = read_folder(target, config.options)
        prepared.check_content()
    except UsageError as error:
        reason, doubtful = str(error), False
    else:
        doubtful = not prepared.manifest["verified"]
        reason = outdated(config, options, prepared.manifest["files"]) if doubtful else ""
    if reason:
        say(f"{config.label}: prepared again, since {reason}")
        return False
    remedy = f", but not verified; {config.by_hand(options.data_root)}" if doubtful and not config.user_path else ""
    say(f"{config.label}: is already prepared in {target}{remedy}")
    return True


def _make(config: DatasetConfig, source: SourceFiles, target: Path, unverified: bool) -> None:
    """Verify the files, write the arrays and the manifest, and publish the finished folder."""
    # A user's files have no hash: what is wrong with their folder is said before anything else.
    own = _read(config, source) if source.kind == "own" else None
    say(f"{config.label}: reading {', '.join(str(file.path) for file in source.files)}")
    with progress_bar("check", sum(size_of(file.path) for file in source.files), "bytes") as advance:
        accepted = unverified or source.kind == "own"
        files = [verify_file(file, source.remedy, accepted, advance) for file in source.files]
    verified, info = all(file["agrees"] for file in files), config.info
    if not verified and source.kind != "own":
        say(f"{config.label}: not verified: {VERIFICATION[verified]}")
    origin = {  # known before any example is read, and determines everything else
        "format": FORMAT,
        "dataset": config.dataset,
        "options": dict(config.options),
        "title": info.title,
        "license": info.license,
        "citation": info.citation,
        "source": source.kind,
        "repository": info.repository if source.kind == "hub" else "",
        "revision": source.revision,
        "files": files,
        "verified": verified,
        "verification": VERIFICATION[verified],
        "versions": {name: metadata.version(name) for name in MAKERS},
    }
    staging = StagingFolder(target, digest(origin))
    raw = own or _read(config, source)
    made, facts = write_images.write(raw, staging) if isinstance(raw, Images) else write_texts.write(raw, staging)
    counts = facts["counts"]
    for reason in filter(counts["dropped"].get, counts["dropped"]):
        say(f"  left out, {reason}: {counts['dropped'][reason]}")
    if staging.reused:
        say(f"  reused from an interrupted preparation: {', '.join(staging.reused)}")
    staging.publish(made, {**origin, **facts})
    examples = ", ".join(f"{split} {counts['examples'][split]:,}" for split in SPLITS)
    classes = f"; classes: {some(raw.classes)}" if isinstance(raw, Images) and raw.classes else ""
    say(f"{config.label}: prepared in {target}: {examples}{classes}")


def _read(config: DatasetConfig, source: SourceFiles) -> Images | Texts:
    """The raw examples. Raises `UsageError` if the files are others than the dataset's, with what to do."""
    dataset = importlib.import_module(f"fairbench.data.datasets.{config.info.module}")
    try:
        raw: Images | Texts = dataset.read(source, config.options)
    except UsageError as error:
        raise error if source.kind == "own" else UsageError(f"{error}; {source.remedy}") from error
    return raw

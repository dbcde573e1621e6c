"""From the files of a dataset to its prepared arrays: find, verify, read, split and write them, all or nothing."""

import errno
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from filelock import FileLock, Timeout

from fairbench.common.errors import UsageError
from fairbench.common.hashing import digest
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.raw import Images, Texts
from fairbench.data.formats.source_files import SourceFiles, sha256_of, size_of, verify_file
from fairbench.data.preparation import write_images, write_texts
from fairbench.data.preparation.locate import find_source_files
from fairbench.data.preparation.progress_bar import note, progress_bar
from fairbench.data.preparation.staging import StagingFolder
from fairbench.data.prepared import FORMAT, MANIFEST, read_folder, sealed

MAKERS = ("numpy", "pillow", "pyarrow", "tokenizers")
"""Distributions whose versions may affect the arrays."""
VERIFICATION = {
    True: "every file has the hash that its authors or the hub publish",
    False: "a file has no known hash, or a different one: nothing vouches for the data",
}


@dataclass(frozen=True)
class PrepareOptions:
    """Where the files of datasets come from, and which of them are accepted.

    Attributes:
        data_root: the folder of all data.
        hub_folder: a local copy of the hub's files, as owner/name/path; None: the folder of downloads in `data_root`.
        fetch: download missing files, unless `hub_folder` is given.
        unverified: accept files whose hash differs from the known one.
    """

    data_root: Path
    hub_folder: Path | None = None
    fetch: bool = False
    unverified: bool = False


def prepare(config: DatasetConfig, options: PrepareOptions) -> None:
    """Prepare a dataset, unless it is prepared already.

    Raises:
        UsageError: files are missing, damaged or not the known ones, or the disk has too little free space.
    """
    target = config.folder(options.data_root)
    with _exclusive(target):
        if target.exists() and _is_current(config, target):
            return
        fetch = options.fetch and options.hub_folder is None
        hub_root = options.hub_folder or options.data_root / "hub"
        source = find_source_files(config, options.data_root, hub_root, fetch)
        _make(config, source, target, options.unverified)


@contextmanager
def _exclusive(target: Path) -> Iterator[None]:
    """Keep other processes from preparing the same folder; the lock ends with the process, however it ends.

    Raises:
        UsageError: the disk is full.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(target.parent / f".{target.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        note(f"{target.name}: another process is preparing it; waiting for it to finish")
        lock.acquire()
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UsageError(
            f"the disk is full, {target} is not finished; free some space and run the same command again: "
            "finished files are kept"
        ) from error
    finally:
        lock.release()


def _is_current(config: DatasetConfig, target: Path) -> bool:
    """Whether the prepared arrays are intact, and a user's files unchanged if they still exist."""
    try:
        prepared = read_folder(target, config.options)
        prepared.check_content()
        manifest, path = prepared.manifest, config.user_path
        if path and path.exists() and sha256_of(path) != manifest["files"][0]["sha256"]:
            raise UsageError(f"{path} has changed")
    except UsageError as error:
        note(f"{config.label}: prepared again, since {error}")
        return False
    note(f"{config.label}: is already prepared in {target}{'' if manifest['verified'] else ', not verified'}")
    return True


def _make(config: DatasetConfig, source: SourceFiles, target: Path, unverified: bool) -> None:
    """Verify the files, write the arrays and the manifest, and publish the finished folder."""
    note(f"{config.label}: reading {', '.join(str(file.path) for file in source.files)}")
    with progress_bar("check", sum(size_of(file.path) for file in source.files), "bytes") as advance:
        files = [verify_file(file, source.remedy, unverified, advance) for file in source.files]
    verified, info = all(file["agrees"] for file in files), config.info
    if not verified:
        note(f"{config.label}: not verified: {VERIFICATION[verified]}")
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
    dataset = importlib.import_module(f"fairbench.data.datasets.{info.module}")
    raw: Images | Texts = dataset.read(source, config.options)
    made, facts = write_images.write(raw, staging) if isinstance(raw, Images) else write_texts.write(raw, staging)
    if staging.reused:
        note(f"  reused from an interrupted preparation: {', '.join(staging.reused)}")
    staging.publish(made, MANIFEST, sealed({**origin, **facts, "arrays": staging.described(made)}))
    note(f"{config.label}: prepared in {target}")

"""From the files of a dataset to its prepared arrays: verify_file, read, divided, written, all or nothing."""

import errno
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.common.hashing import digest
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.raw import Images, Texts
from fairbench.data.formats.source_files import SourceFiles, sha256_of, size_of, verify_file
from fairbench.data.preparation import hub, locate, write_images, write_texts
from fairbench.data.preparation.disk_space import require_disk_space
from fairbench.data.preparation.progress_bar import Display
from fairbench.data.preparation.staging import StagingFolder
from fairbench.data.prepared import FORMAT, MANIFEST, Prepared, sealed

MAKERS = ("numpy", "pillow", "pyarrow", "tokenizers")
"""Distributions whose versions may show in the arrays."""
VERIFICATION = {
    True: "every file has the hash that its authors or the hub state",
    False: "a file has no known hash, or another one: nothing vouches for the data",
}


@dataclass(frozen=True)
class PrepareOptions:
    """How data may be had.

    Attributes:
        data_root: the folder of all data.
        hub_folder: a local folder in the hub's layout, owner/name/path; None: what was downloaded, or the hub itself.
        fetch: download what is missing.
        unverified: take files whose hash is not the known one.
    """

    data_root: Path
    hub_folder: Path | None
    fetch: bool
    unverified: bool

    @property
    def hub_root(self) -> Path:
        """Where the hub's files lie."""
        return self.hub_folder or self.data_root / "hub"


def prepare(config: DatasetConfig, options: PrepareOptions, display: Display) -> Path:
    """Prepare a dataset, unless it is prepared.

    Args:
        config: the dataset.
        options: how its files may be had.
        display: where progress is shown.

    Returns:
        The folder of the arrays.

    Raises:
        UsageError: files are missing, damaged or not the known ones, or the disk has too little room.
    """
    target = config.folder(options.data_root)
    with _alone(target, display), _disk_named(target):
        if _is_prepared(config, options.data_root, display):
            return target
        if options.fetch and options.hub_folder is None:
            _fetch_missing(config, options, display)
        source = locate.find_source_files(config, options.data_root, options.hub_root)
        _make(config, source, options, target, display)
    return target


@contextmanager
def _alone(target: Path, display: Display) -> Iterator[None]:
    """Hold a preparation against other processes; the operating system frees it, however this one ends."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(target.parent / f".{target.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        display.note(f"{target.name}: another process prepares it; waiting for that one to end")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _disk_named(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UsageError(
            f"the disk is full, {target} is not finished; make room and run the same command again: "
            "what is finished is kept"
        ) from error


def _is_prepared(config: DatasetConfig, data_root: Path, display: Display) -> bool:
    if not config.folder(data_root).exists():
        return False
    try:
        prepared = config.open(data_root)
        _require_unchanged(config, prepared)
    except UsageError as error:
        display.note(f"{config.label}: prepared again, since {str(error).partition('; ')[0]}")
        return False
    doubt = "" if prepared.manifest["verified"] else ", not verified"
    display.note(f"{config.label}: is already prepared in {prepared.folder}{doubt}")
    return True


def _require_unchanged(config: DatasetConfig, prepared: Prepared) -> None:
    """A user's own data may have changed since, where archives cannot; or be gone, which is no reason to refuse."""
    if "path" in config.options:
        path = locate.user_path(config)
        if path.exists() and sha256_of(path) != prepared.manifest["files"][0]["sha256"]:
            raise UsageError(f"{path} has changed")


def _fetch_missing(config: DatasetConfig, options: PrepareOptions, display: Display) -> None:
    """Download the hub's files, unless there are archives; part of the archives is `locate`'s to complain of."""
    if "path" in config.options or locate.local_archives(config, options.data_root):
        return
    if not hub.is_complete(config, options.hub_root):
        facts = config.info
        display.note(f"{config.label}: downloading {facts.repository} at {facts.revision} from the hub")
        hub.download(config, options.hub_root, locate.manual_download(config, options.data_root))


def _make(config: DatasetConfig, source: SourceFiles, options: PrepareOptions, target: Path, display: Display) -> None:
    """Make the arrays and the manifest, and give the folder its name."""
    display.note(f"{config.label}: reading {', '.join(str(file.path) for file in source.files)}")
    files = _checked(source, options.unverified, display)
    origin = _origin(config, source, files)
    if not origin["verified"]:
        display.note(f"{config.label}: not verified: {origin['verification']}")
    staging = StagingFolder(target.parent / f".{target.name}.part", digest(origin))
    module = importlib.import_module(f"fairbench.data.datasets.{config.info.module}")
    raw: Images | Texts = module.read(source, config.options)
    room = write_images.disk_space(raw) if isinstance(raw, Images) else write_texts.disk_space(raw)
    require_disk_space(target.parent, room - size_of(staging.folder), f"prepare {config.label}")
    if isinstance(raw, Images):
        made, facts = write_images.write(raw, staging, display)
    else:
        made, facts = write_texts.write(raw, staging, display)
    if staging.reused:
        display.note(f"  kept of an interrupted preparation: {', '.join(staging.reused)}")
    manifest = {**origin, **facts, "arrays": _arrays(staging, made)}
    write_atomically(staging.path(MANIFEST), sealed(manifest))
    staging.publish(target, [MANIFEST, *made])
    display.note(f"{config.label}: prepared in {target}")


def _checked(source: SourceFiles, unverified: bool, display: Display) -> list[dict[str, Any]]:
    """What the manifest says of the files, which have been compared with what is known of them."""
    with display.work("check", sum(size_of(file.path) for file in source.files), "bytes") as advance:
        return [verify_file(file, source.remedy, unverified, advance) for file in source.files]


def _origin(config: DatasetConfig, source: SourceFiles, files: list[dict[str, Any]]) -> dict[str, Any]:
    """The part of the manifest that is known before any example is read, and determines all the rest."""
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
        "verification": VERIFICATION[verified],
        "versions": {name: metadata.version(name) for name in MAKERS},
    }


def _arrays(staging: StagingFolder, made: list[str]) -> dict[str, Any]:
    """dtype, shape and sha256 of the values, of each array."""
    arrays = {}
    for name in made:
        if name.endswith(".npy"):
            array = staging.array(name)
            facts = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": staging.sha256(name)}
            arrays[name.removesuffix(".npy")] = facts
    return arrays

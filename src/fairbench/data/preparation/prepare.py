"""From the files of a dataset to its prepared arrays: checked, read, divided, written, all or nothing."""

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
from fairbench.data.dataset_config import Request
from fairbench.data.formats.raw import Images, Texts
from fairbench.data.formats.source_files import Found, checked, sha256_of, size_of
from fairbench.data.preparation import hub, locate, write_images, write_texts
from fairbench.data.preparation.disk_space import require_room
from fairbench.data.preparation.progress_bar import Display
from fairbench.data.preparation.staging import Workshop
from fairbench.data.prepared import FORMAT, MANIFEST, Prepared, opened, sealed

MAKERS = ("numpy", "pillow", "pyarrow", "tokenizers")
"""Distributions whose versions may show in the arrays."""
VERIFICATION = {
    True: "every file has the hash that its authors or the hub state",
    False: "a file has no known hash, or another one: nothing vouches for the data",
}


@dataclass(frozen=True)
class Terms:
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


def prepare(request: Request, terms: Terms, display: Display) -> Path:
    """Prepare a dataset, unless it is prepared.

    Args:
        request: the dataset.
        terms: how its files may be had.
        display: where progress is shown.

    Returns:
        The folder of the arrays.

    Raises:
        UsageError: files are missing, damaged or not the known ones, or the disk has too little room.
    """
    target = request.folder(terms.data_root)
    with _alone(target, display), _disk_named(target):
        if _is_prepared(request, terms.data_root, display):
            return target
        if terms.fetch and terms.hub_folder is None:
            _fetch_missing(request, terms, display)
        found = locate.locate(request, terms.data_root, terms.hub_root)
        _make(request, found, terms, target, display)
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


def _is_prepared(request: Request, data_root: Path, display: Display) -> bool:
    if not request.folder(data_root).exists():
        return False
    try:
        prepared = opened(request, data_root)
        _require_unchanged(request, prepared)
    except UsageError as error:
        display.note(f"{request.label}: prepared again, since {str(error).partition('; ')[0]}")
        return False
    doubt = "" if prepared.manifest["verified"] else ", not verified"
    display.note(f"{request.label}: is already prepared in {prepared.folder}{doubt}")
    return True


def _require_unchanged(request: Request, prepared: Prepared) -> None:
    """A user's own data may have changed since, where archives cannot; or be gone, which is no reason to refuse."""
    if "path" in request.options:
        path = locate.own_path(request)
        if path.exists() and sha256_of(path) != prepared.manifest["files"][0]["sha256"]:
            raise UsageError(f"{path} has changed")


def _fetch_missing(request: Request, terms: Terms, display: Display) -> None:
    """Download the hub's files, unless there are archives; part of the archives is `locate`'s to complain of."""
    if "path" in request.options or locate.archives(request, terms.data_root):
        return
    if not hub.is_complete(request, terms.hub_root):
        facts = request.facts
        display.note(f"{request.label}: downloading {facts.repository} at {facts.revision} from the hub")
        hub.fetch(request, terms.hub_root, locate.by_hand(request, terms.data_root))


def _make(request: Request, found: Found, terms: Terms, target: Path, display: Display) -> None:
    """Make the arrays and the manifest, and give the folder its name."""
    display.note(f"{request.label}: reading {', '.join(str(file.path) for file in found.files)}")
    files = _checked(found, terms.unverified, display)
    origin = _origin(request, found, files)
    if not origin["verified"]:
        display.note(f"{request.label}: not verified: {origin['verification']}")
    workshop = Workshop(target.parent / f".{target.name}.part", digest(origin))
    module = importlib.import_module(f"fairbench.data.datasets.{request.facts.module}")
    source: Images | Texts = module.read(found, request.options)
    room = write_images.room(source) if isinstance(source, Images) else write_texts.room(source)
    require_room(target.parent, room - size_of(workshop.folder), f"prepare {request.label}")
    if isinstance(source, Images):
        made, facts = write_images.write(source, workshop, display)
    else:
        made, facts = write_texts.write(source, workshop, display)
    if workshop.kept:
        display.note(f"  kept of an interrupted preparation: {', '.join(workshop.kept)}")
    manifest = {**origin, **facts, "arrays": _arrays(workshop, made)}
    write_atomically(workshop.path(MANIFEST), sealed(manifest))
    workshop.deliver(target, [MANIFEST, *made])
    display.note(f"{request.label}: prepared in {target}")


def _checked(found: Found, unverified: bool, display: Display) -> list[dict[str, Any]]:
    """What the manifest says of the files, which have been compared with what is known of them."""
    with display.work("check", sum(size_of(file.path) for file in found.files), "bytes") as advance:
        return [checked(file, found.remedy, unverified, advance) for file in found.files]


def _origin(request: Request, found: Found, files: list[dict[str, Any]]) -> dict[str, Any]:
    """The part of the manifest that is known before any example is read, and determines all the rest."""
    verified = all(file["agrees"] for file in files)
    return {
        "format": FORMAT,
        "dataset": request.dataset,
        "options": dict(request.options),
        "title": request.facts.title,
        "licence": request.facts.licence,
        "citation": request.facts.citation,
        "source": found.kind,
        "repository": request.facts.repository if found.kind == "hub" else "",
        "revision": found.revision,
        "files": files,
        "verified": verified,
        "verification": VERIFICATION[verified],
        "versions": {name: metadata.version(name) for name in MAKERS},
    }


def _arrays(workshop: Workshop, made: list[str]) -> dict[str, Any]:
    """dtype, shape and sha256 of the values, of each array."""
    arrays = {}
    for name in made:
        if name.endswith(".npy"):
            array = workshop.array(name)
            facts = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": workshop.sha256(name)}
            arrays[name.removesuffix(".npy")] = facts
    return arrays

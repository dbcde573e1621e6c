"""Files of a dataset's repository on the hub, at the commit that fairbench reads."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.datasets.info import Dataset
from fairbench.data.formats.source_files import SourceFile
from fairbench.data.preparation.disk_space import require_disk_space

LISTING = "fairbench-listing.json"
"""The hub's metadata of the files at the commit, stored with them so that they can be checked offline."""


def local_files(config: DatasetConfig, hub_root: Path) -> tuple[list[SourceFile], list[str]]:
    """The hub's files that lie in a folder in the hub's layout.

    Args:
        config: the dataset.
        hub_root: the folder; the files lie in hub_root/owner/name.

    Returns:
        The files, with the hash that the hub stated where its listing is there; what is missing.
    """
    folder = hub_root / config.info.repository
    listing = _read_listing(folder, config.info.revision)
    known = {archive.name: archive.expected for archive in config.archives}
    files, missing = [], []
    for wanted in config.hub_files:
        here = {path.relative_to(folder).as_posix() for path in folder.glob(wanted.pattern)}
        for name in sorted(here):
            facts = listing.get(name, {})
            expected = {"sha256": facts["sha256"]} if facts.get("sha256") else known.get(name, {})
            files.append(SourceFile(name, folder / name, expected, facts.get("size", 0), wanted.split))
        listed = {name for name in listing if fnmatchcase(name, wanted.pattern)}
        missing += sorted(listed - here) if listed else _missing_shards(wanted.pattern, here)
    return files, missing


def is_complete(config: DatasetConfig, hub_root: Path) -> bool:
    """Whether all of the hub's files are there, and are those of the commit as far as their listing tells."""
    _, missing = local_files(config, hub_root)
    return not missing and bool(_read_listing(hub_root / config.info.repository, config.info.revision))


def _missing_shards(pattern: str, names: set[str]) -> list[str]:
    """What the names themselves tell: of files 00000-of-00004 there are four."""
    if not names:
        return [pattern]
    shards = [match for name in names if (match := re.search(r"(\d{5})-of-(\d{5})", name))]
    absent = {int(match[2]): set(range(int(match[2]))) for match in shards}
    for match in shards:
        absent[int(match[2])].discard(int(match[1]))
    return [pattern.replace("*", f"{i:05}-of-{total:05}*") for total, left in absent.items() for i in sorted(left)]


def _read_listing(folder: Path, revision: str) -> dict[str, Any]:
    """What the hub said of the files at this commit; empty where it is not known."""
    try:
        content = json.loads((folder / LISTING).read_text())
        return dict(content["files"]) if content["revision"] == revision else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def download(config: DatasetConfig, hub_root: Path, manual_download: str) -> None:
    """Download the files of a dataset; finished ones are kept.

    Args:
        config: the dataset.
        hub_root: the folder in the hub's layout.
        manual_download: how to get the data otherwise, for errors.

    Raises:
        UsageError: the hub cannot be reached or does not have them, or the disk has too little room.
    """
    from huggingface_hub import HfApi, hf_hub_download

    facts = config.info
    folder = hub_root / facts.repository
    with _failure_named(facts, manual_download):
        tree = HfApi().list_repo_tree(facts.repository, recursive=True, revision=facts.revision, repo_type="dataset")
        listing = {file.path: _facts_of(file) for file in tree if hasattr(file, "size")}
    patterns = [wanted.pattern for wanted in config.hub_files]
    chosen = sorted(name for name in listing if any(fnmatchcase(name, pattern) for pattern in patterns))
    require_disk_space(
        folder, sum(listing[n]["size"] for n in chosen if not (folder / n).exists()), f"download {facts.title}"
    )
    write_atomically(folder / LISTING, json.dumps({"revision": facts.revision, "files": listing}, indent=1) + "\n")
    for name in chosen:
        with _failure_named(facts, manual_download):
            hf_hub_download(facts.repository, name, revision=facts.revision, repo_type="dataset", local_dir=folder)


def _facts_of(file: Any) -> dict[str, Any]:
    """Size and, where git does not hold the file itself, sha256."""
    return {"size": file.size, "sha256": file.lfs.sha256 if file.lfs else ""}


@contextmanager
def _failure_named(facts: Dataset, manual_download: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # huggingface_hub passes on what its HTTP library raises, which differs by version
        reason = " ".join(str(error).split())[:300]
        raise UsageError(
            f"cannot download {facts.repository} at {facts.revision} from the hub "
            f"({type(error).__name__}: {reason}); what has arrived is kept. By hand: {manual_download}"
        ) from error

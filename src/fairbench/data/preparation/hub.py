"""Files of a dataset's repository on the hub, at the commit that fairbench reads."""

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypedDict

from fairbench.common.coercion import build
from fairbench.common.errors import UsageError, one_line
from fairbench.common.files import require_disk_space, write_atomically
from fairbench.common.reading import read_json
from fairbench.common.terminal import say
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.source_files import SourceFile

LISTING = "fairbench-listing.json"
"""The hub's metadata of the files, stored with them: a copy of the folder shows which are missing or damaged."""
HASHES = Path(__file__).parents[1] / "datasets" / "hub_sha256.txt"
"""The sha256 of the hub's files at the commits that fairbench reads, as `sha256sum` writes them."""


class _Listed(TypedDict, total=False):
    size: int
    sha256: str


class _Listing(TypedDict):
    revision: str
    files: dict[str, _Listed]


def known_hashes(config: DatasetConfig) -> dict[str, str]:
    """The known sha256 of the hub's files of a dataset, by their names in its repository."""
    lines = (line.split() for line in HASHES.read_text().splitlines())
    sha256 = {path: value for value, path in lines}
    ours = f"{config.info.repository}/"
    of_hub = {path.removeprefix(ours): value for path, value in sha256.items() if path.startswith(ours)}
    return {archive.name: archive.sha256 for archive in config.archives} | of_hub


def hashes_are_known(config: DatasetConfig) -> bool:
    """Whether the hash of every file of the hub that the dataset needs is known."""
    known = known_hashes(config)
    return all(any(fnmatchcase(name, wanted.name) for name in known) for wanted in config.hub_files)


def local_files(config: DatasetConfig, hub_root: Path) -> tuple[list[SourceFile], list[str]]:
    """The hub's files of a dataset that lie in `hub_root`/owner/name, and the names of the missing ones."""
    folder = hub_root / config.info.repository
    listing, known = _read_listing(folder, config.info.revision), known_hashes(config)
    files, missing = [], []
    for wanted in config.hub_files:
        here = {path.relative_to(folder).as_posix() for path in folder.glob(wanted.name)}
        for name in sorted(here):
            listed, path = listing.get(name, _Listed()), folder / name
            size, sha256 = listed.get("size", 0), listed.get("sha256", "")
            files.append(SourceFile(name, path, known.get(name, ""), size, wanted.split, listed=sha256))
        matching = ({name for name in names if fnmatchcase(name, wanted.name)} for names in (known, listing))
        complete = next(filter(None, matching), None)
        missing += sorted(complete - here) if complete else _missing_shards(wanted.name, here)
    return files, missing


def _missing_shards(pattern: str, names: set[str]) -> list[str]:
    """Missing files by the names of the present ones: with 00000-of-00004, four are expected."""
    if not names:
        return [pattern]
    shards = [match for name in names if (match := re.search(r"(\d{5})-of-(\d{5})", name))]
    present = {(int(match[1]), int(match[2])) for match in shards}
    expected = {(i, total) for _, total in present for i in range(total)}
    return [pattern.replace("*", f"{i:05}-of-{total:05}*") for i, total in sorted(expected - present)]


def _read_listing(folder: Path, revision: str) -> dict[str, _Listed]:
    """The hub's metadata of the files at this commit; empty if unknown."""
    listing = read_json(folder / LISTING, lambda value: build(_Listing, value, ()))
    return listing["files"] if isinstance(listing, dict) and listing["revision"] == revision else {}


def download_missing(config: DatasetConfig, hub_root: Path, by_hand: str) -> None:
    """Download missing files of a dataset, and the hub's listing if there is neither that nor a known hash.

    Args:
        config: the dataset.
        hub_root: the folder in the hub's layout.
        by_hand: how to get the data without the hub, for errors.

    Raises:
        UsageError: the hub cannot be reached or does not have them, or the disk has too little free space.
    """
    facts = config.info
    folder = hub_root / facts.repository
    if not local_files(config, hub_root)[1] and (hashes_are_known(config) or _read_listing(folder, facts.revision)):
        return
    say(f"{config.label}: downloading {facts.repository} at {facts.revision} from the hub")
    from huggingface_hub import HfApi, hf_hub_download

    try:
        api: Any = HfApi()
        tree = api.list_repo_tree(facts.repository, recursive=True, revision=facts.revision, repo_type="dataset")
        listing = {
            file.path: {"size": file.size, "sha256": file.lfs.sha256 if file.lfs else ""}
            for file in tree
            if hasattr(file, "size")
        }
        chosen = sorted(x for x in listing if any(fnmatchcase(x, wanted.name) for wanted in config.hub_files))
        absent = sum(listing[name]["size"] for name in chosen if not (folder / name).exists())
        require_disk_space(folder, absent, f"download {facts.title}")
        write_atomically(folder / LISTING, json.dumps({"revision": facts.revision, "files": listing}, indent=1) + "\n")
        for name in chosen:
            hf_hub_download(facts.repository, name, revision=facts.revision, repo_type="dataset", local_dir=folder)
    except UsageError:
        raise
    except Exception as error:  # huggingface_hub passes on errors of its HTTP library, which differ by version
        raise UsageError(
            f"cannot download {facts.repository} at {facts.revision} from the hub "
            f"({one_line(error)}); finished files are kept; try again, or {by_hand}"
        ) from error

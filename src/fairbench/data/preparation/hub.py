"""Files of a dataset's repository on the hub, at the commit that fairbench reads."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError, explained, one_line
from fairbench.common.files import require_disk_space
from fairbench.common.formatting import some
from fairbench.common.terminal import say
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.source_files import SourceFile

HASHES = Path(__file__).parents[1] / "datasets" / "hub_sha256.txt"
"""The sha256 of the hub's files at the commits that fairbench reads, as `sha256sum` writes them."""
SHARD = re.compile(r"-(\d{5})-of-(\d{5})")
"""The part of a file's name that says which of how many shards it is."""


def known_hashes(config: DatasetConfig) -> dict[str, str]:
    """The known sha256 of the hub's files of a dataset, by their names in the repository."""
    known = {archive.name: archive.sha256 for archive in config.archives}
    folder = f"{config.info.repository}/"
    for line in HASHES.read_text().splitlines():
        sha256, path = line.split()
        if path.startswith(folder):
            name = path.removeprefix(folder)
            known[name] = sha256
    return known


def hashes_are_known(config: DatasetConfig) -> bool:
    """Whether hashes are known for all files of the hub that the dataset needs."""
    known = known_hashes(config)
    return all(_matching(known, wanted.name) for wanted in config.hub_files)


def _matching(names: Iterable[str], pattern: str) -> list[str]:
    """The names that a shell pattern matches."""
    return [name for name in names if fnmatchcase(name, pattern)]


def local_files(config: DatasetConfig, hub_root: Path) -> tuple[list[SourceFile], list[str]]:
    """Find the hub's files of a dataset in `hub_root`/owner/name.

    Returns:
        The files that are in the folder, and the names of the missing ones.
    """
    folder = hub_root / config.info.repository
    known = known_hashes(config)
    files: list[SourceFile] = []
    missing: list[str] = []
    for wanted in config.hub_files:
        present = {path.relative_to(folder).as_posix() for path in folder.glob(wanted.name)}
        for name in sorted(present):
            file = SourceFile(name, path=folder / name, sha256=known.get(name, ""), split=wanted.split)
            files.append(file)
        expected = set(_matching(known, wanted.name))
        if expected:
            missing += sorted(expected - present)
        elif not present:
            # Without known hashes, only the pattern of the names is known.
            missing.append(wanted.name)
    return files, missing


def check_shards(config: DatasetConfig, files: Sequence[SourceFile], remedy: str) -> None:
    """Check that the files of each split are all shards of one layout.

    Files of two downloads may lie together, for example 00000-of-00002 and 00001-of-00003.

    Raises:
        UsageError: shards are missing, or belong to several layouts. `remedy` ends the message.
    """
    for wanted in config.hub_files:
        shards = [file for file in files if fnmatchcase(file.name, wanted.name)]
        numbers_and_totals = []
        for file in shards:
            match = SHARD.search(file.name)
            if match:
                numbers_and_totals.append((int(match[1]), int(match[2])))
        numbers_and_totals.sort()
        expected = [(number, len(shards)) for number in range(len(shards))]
        if numbers_and_totals and numbers_and_totals != expected:
            names = some([str(file.path) for file in shards])
            raise UsageError(f"{config.dataset}: {names} are not all shards of one layout; {remedy}")


def download_missing(config: DatasetConfig, hub_root: Path, by_hand: str) -> None:
    """Download the missing files of a dataset.

    Args:
        config: the dataset.
        hub_root: the folder of downloads; the files go to its subfolder owner/name.
        by_hand: how to get the data without the hub, for errors.

    Raises:
        UsageError: the download fails, or the disk has too little space.
    """
    _, missing = local_files(config, hub_root)
    if not missing:
        return
    facts = config.info
    repository_at = f"{facts.repository} at {facts.revision}"
    say(f"{config.label}: downloading {repository_at} from the hub")

    def complaint(error: BaseException) -> str:
        kept = f"finished files are kept; try again, or {by_hand}"
        return f"cannot download {repository_at} from the hub ({one_line(error)}); {kept}"

    from huggingface_hub import HfApi, hf_hub_download

    with explained(complaint):
        folder = hub_root / facts.repository
        sizes = _sizes_on_hub(HfApi(), config)
        absent = [name for name in sizes if not (folder / name).exists()]
        size = sum(sizes[name] for name in absent)
        require_disk_space(folder, size, f"download {facts.title}")
        # Files that are already there are checked by the library, and not downloaded again.
        for name in sizes:
            hf_hub_download(facts.repository, name, revision=facts.revision, repo_type="dataset", local_dir=folder)


def _sizes_on_hub(api: Any, config: DatasetConfig) -> dict[str, int]:
    """The number of bytes of each file on the hub that the dataset needs, sorted by name."""
    facts = config.info
    tree = api.list_repo_tree(facts.repository, recursive=True, revision=facts.revision, repo_type="dataset")
    sizes = {file.path: file.size for file in tree if hasattr(file, "size")}  # folders have no size
    chosen: set[str] = set()
    for wanted in config.hub_files:
        chosen.update(_matching(sizes, wanted.name))
    return {name: sizes[name] for name in sorted(chosen)}

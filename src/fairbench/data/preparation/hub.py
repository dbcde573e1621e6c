"""Files of a dataset's repository on the hub, at the commit that fairbench reads."""

import re
from collections.abc import Sequence
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


def known_hashes(config: DatasetConfig) -> dict[str, str]:
    """The known sha256 of the hub's files of a dataset, by their names in its repository."""
    lines = (line.split() for line in HASHES.read_text().splitlines())
    ours = f"{config.info.repository}/"
    of_hub = {path.removeprefix(ours): sha256 for sha256, path in lines if path.startswith(ours)}
    return {archive.name: archive.sha256 for archive in config.archives} | of_hub


def hashes_are_known(config: DatasetConfig) -> bool:
    """Whether the hash of every file of the hub that the dataset needs is known."""
    known = known_hashes(config)
    return all(any(fnmatchcase(name, wanted.name) for name in known) for wanted in config.hub_files)


def local_files(config: DatasetConfig, hub_root: Path) -> tuple[list[SourceFile], list[str]]:
    """The hub's files of a dataset that lie in `hub_root`/owner/name, and the names of the missing ones."""
    folder = hub_root / config.info.repository
    known, files, missing = known_hashes(config), [], []
    for wanted in config.hub_files:
        here = {path.relative_to(folder).as_posix() for path in folder.glob(wanted.name)}
        files += [SourceFile(x, folder / x, known.get(x, ""), split=wanted.split) for x in sorted(here)]
        complete = {name for name in known if fnmatchcase(name, wanted.name)} or here or {wanted.name}
        missing += sorted(complete - here)
    return files, missing


def check_shards(config: DatasetConfig, files: Sequence[SourceFile], remedy: str) -> None:
    """Raise UsageError if the shards of a split, NUMBER-of-TOTAL, are not exactly those of one layout."""
    for wanted in config.hub_files:
        shards = [file for file in files if fnmatchcase(file.name, wanted.name)]
        matches = [re.search(r"-(\d{5})-of-(\d{5})", file.name) for file in shards]
        found = sorted((int(match[1]), int(match[2])) for match in matches if match)
        if found and found != [(i, len(shards)) for i in range(len(shards))]:
            names = some([str(file.path) for file in shards])
            raise UsageError(f"{config.dataset}: {names} are not all shards of one layout; {remedy}")


def download_missing(config: DatasetConfig, hub_root: Path, by_hand: str) -> None:
    """Download missing files of a dataset; `by_hand` says, for errors, how to get the data without the hub."""
    facts = config.info
    folder = hub_root / facts.repository
    if not local_files(config, hub_root)[1]:
        return
    what = f"{facts.repository} at {facts.revision}"
    say(f"{config.label}: downloading {what} from the hub")
    from huggingface_hub import HfApi, hf_hub_download

    kept = f"finished files are kept; try again, or {by_hand}"
    with explained(lambda error: f"cannot download {what} from the hub ({one_line(error)}); {kept}"):
        api: Any = HfApi()
        tree = api.list_repo_tree(facts.repository, recursive=True, revision=facts.revision, repo_type="dataset")
        sizes = {file.path: file.size for file in tree if hasattr(file, "size")}
        chosen = sorted(x for x in sizes if any(fnmatchcase(x, wanted.name) for wanted in config.hub_files))
        absent = sum(sizes[name] for name in chosen if not (folder / name).exists())
        require_disk_space(folder, absent, f"download {facts.title}")
        for name in chosen:
            hf_hub_download(facts.repository, name, revision=facts.revision, repo_type="dataset", local_dir=folder)

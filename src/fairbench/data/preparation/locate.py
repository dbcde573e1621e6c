"""The files that a dataset is read from: the authors' archives, otherwise the hub's files, or a user's files."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.formatting import some
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.source_files import SourceFile, SourceFiles, sha256_of, size_of, verify_file
from fairbench.data.preparation import hub


@dataclass(frozen=True)
class PrepareOptions:
    """Where the files of datasets come from, and which of them are accepted.

    Attributes:
        hub_folder: a local copy of the hub's files, as owner/name/path; None: the folder of downloads in `data_root`.
        fetch: download missing files, unless `hub_folder` is given.
        unverified: accept files whose hash differs from the known one, or of which none is known.
        again: prepare what is prepared already.
    """

    data_root: Path
    hub_folder: Path | None = None
    fetch: bool = False
    unverified: bool = False
    again: bool = False

    @property
    def hub_root(self) -> Path:
        return self.hub_folder or self.data_root / "hub"


def find_source_files(config: DatasetConfig, options: PrepareOptions) -> SourceFiles:
    """The local files of a dataset; missing files of the hub are downloaded if there is no archive."""
    if path := config.user_path:
        if not path.exists():
            raise UsageError(f"option path of {config.dataset}: there is no {path} (relative to {Path.cwd()})")
        return SourceFiles("own", (SourceFile(path.name, path),), "correct it")
    root, hub_root, own_hub = options.data_root, options.hub_root, options.hub_folder
    by_hand = config.by_hand(root)
    known = hub.hashes_are_known(config)
    flags = [*(() if known else ["--unverified"]), *(["--hub", shlex.quote(str(own_hub))] if own_hub else [])]
    again = f"run: {config.command('prepare' if own_hub else 'download', root, *flags)}"
    archives = local_archives(config, root)
    if len({archive.name for archive in archives}) < len(archives):
        paths = " and ".join(str(archive.path) for archive in archives)
        raise UsageError(f"{config.dataset}: {paths} are there, and none is known to be right; move one away")
    absent = [archive.name for archive in config.archives if archive.name not in {file.name for file in archives}]
    if archives:
        remedy = f"{by_hand}; or move {archives[0].path} away and {again}"
        if absent:
            raise UsageError(f"{config.dataset}: {archives[0].path} is there, but not {', '.join(absent)}; {remedy}")
        return SourceFiles("archive", tuple(archives), remedy)
    if options.fetch and not own_hub:
        if not (known or options.unverified):
            unknown = f"{config.dataset}: no hashes of the hub's files are known"
            raise UsageError(f"{unknown}; {by_hand}; or, to accept them, {again}")
        hub.download_missing(config, hub_root, by_hand)
    files, missing = hub.local_files(config, hub_root)
    if missing:
        here = f"no {', '.join(absent)} in {root}, no {some(missing)} in {hub_root / config.info.repository}"
        raise UsageError(
            f"{config.dataset} is missing: {here}; {by_hand}; or {'add them there and ' if own_hub else ''}{again}"
        )
    hub.check_shards(config, files, f"delete those of one layout{'' if own_hub else ', or all,'} and {again}")
    replaced = f"{'replace' if own_hub else 'delete'} it and {again}"
    remedy = replaced if known else f"{by_hand}; or {replaced}"
    return SourceFiles("hub", tuple(files), remedy, config.info.revision)


def outdated(config: DatasetConfig, options: PrepareOptions, used: Sequence[Mapping[str, Any]]) -> str:
    """Why arrays that are not verified and were made of these files are made again; empty if they are not."""
    archives = local_archives(config, options.data_root)
    try:
        source = find_source_files(config, replace(options, fetch=options.fetch and not options.unverified))
    except UsageError:
        if len({archive.name for archive in archives}) < len(archives):
            raise
        return ""  # what they were made of is gone
    if all(map(_is_known, source.files)):
        return "it is not verified, and files with the known hashes are there"
    before = {file["name"]: file["sha256"] for file in used}
    changed = [str(file.path) for file in source.files if sha256_of(file.path) != before.get(file.name)]
    return f"{some(changed)} {'has' if len(changed) == 1 else 'have'} changed" if changed else ""


def _is_known(file: SourceFile) -> bool:
    """Whether a file has its known hash; a file of another size is not read."""
    same_size = file.header or file.size in (0, size_of(file.path))
    return bool(file.sha256 and same_size and verify_file(file, "", True, lambda size: None)["agrees"])


def local_archives(config: DatasetConfig, data_root: Path) -> list[SourceFile]:
    """The archives of a dataset that lie in the data root or in its folder named after the dataset.

    Of several copies of one, that with the known hash; all of them if none has it.
    """
    files: list[SourceFile] = []
    for file in config.archives:
        paths = [folder / x for x in (file.name, *file.also) for folder in (data_root, data_root / config.dataset)]
        copies = {path.resolve(): replace(file, path=path) for path in paths if path.is_file()}.values()
        files += ([*filter(_is_known, copies)][:1] if len(copies) > 1 else []) or copies
    return files

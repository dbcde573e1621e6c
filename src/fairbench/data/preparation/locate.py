"""The files that a published dataset is read from: the authors' archives or else the hub's files."""

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
        data_root: the folder of downloads and of prepared data.
        hub_folder: a local copy of the hub's files, as owner/name/path. By default, the folder of downloads in
            `data_root`.
        fetch: whether to download missing files, unless `hub_folder` is given.
        unverified: whether to accept files whose hash is not known, or differs from the known one.
        again: whether to prepare a dataset that is already prepared.
    """

    data_root: Path
    hub_folder: Path | None = None
    fetch: bool = False
    unverified: bool = False
    again: bool = False

    @property
    def hub_root(self) -> Path:
        """The folder of the hub's files."""
        return self.hub_folder or self.data_root / "hub"


def find_source_files(config: DatasetConfig, options: PrepareOptions) -> SourceFiles:
    """Find the local files of a dataset. Without archives, missing files of the hub are downloaded.

    Args:
        config: the dataset.
        options: where to look, and whether to download.

    Returns:
        The files of one source.

    Raises:
        UsageError: files are missing, or there are several copies of one.
    """
    archives = local_archives(config, options.data_root)
    _refuse_copies(config, archives)
    if archives:
        return _archive_files(config, options, archives)
    return _hub_files(config, options)


def _refuse_copies(config: DatasetConfig, archives: Sequence[SourceFile]) -> None:
    """Raise UsageError if several copies of an archive are left, because none of them has the known hash."""
    if _has_copies(archives):
        paths = " and ".join(str(archive.path) for archive in archives)
        raise UsageError(f"{config.dataset}: {paths} are there, and none is known to be right; move one away")


def _has_copies(archives: Sequence[SourceFile]) -> bool:
    """Whether two of the archives are copies of the same one."""
    names = {archive.name for archive in archives}
    return len(names) < len(archives)


def _archive_files(config: DatasetConfig, options: PrepareOptions, archives: Sequence[SourceFile]) -> SourceFiles:
    """The archives as the source of a dataset. Raises `UsageError` if only some archives are there."""
    by_hand = config.by_hand(options.data_root)
    first = archives[0].path
    remedy = f"{by_hand}; or move {first} away and {_run_again(config, options)}"
    absent = _absent_archives(config, archives)
    if absent:
        raise UsageError(f"{config.dataset}: {first} is there, but not {', '.join(absent)}; {remedy}")
    return SourceFiles("archive", tuple(archives), remedy)


def _absent_archives(config: DatasetConfig, archives: Sequence[SourceFile]) -> list[str]:
    """The names of the archives that a dataset needs and that are not among the given ones."""
    present = {archive.name for archive in archives}
    return [archive.name for archive in config.archives if archive.name not in present]


def _hub_files(config: DatasetConfig, options: PrepareOptions) -> SourceFiles:
    """The files of the hub as the source of a dataset, downloaded if they are missing and the options allow it."""
    root = options.data_root
    by_hand = config.by_hand(root)
    again = _run_again(config, options)
    has_own_copy = options.hub_folder is not None
    known = hub.hashes_are_known(config)
    if options.fetch and not has_own_copy:
        if not known and not options.unverified:
            unknown = f"{config.dataset}: no hashes of the hub's files are known"
            raise UsageError(f"{unknown}; {by_hand}; or, to accept them, {again}")
        hub.download_missing(config, options.hub_root, by_hand)

    files, missing = hub.local_files(config, options.hub_root)
    if missing:
        archives = ", ".join(_absent_archives(config, []))
        folder = options.hub_root / config.info.repository
        add_them = "add them there and " if has_own_copy else ""
        raise UsageError(
            f"{config.dataset} is missing: no {archives} in {root}, no {some(missing)} in {folder}; "
            f"{by_hand}; or {add_them}{again}"
        )
    or_all = "" if has_own_copy else ", or all,"
    hub.check_shards(config, files, f"delete those of one layout{or_all} and {again}")

    verb = "replace" if has_own_copy else "delete"
    remedy = f"{verb} it and {again}"
    if not known:
        remedy = f"{by_hand}; or {remedy}"
    return SourceFiles("hub", tuple(files), remedy, config.info.revision)


def _run_again(config: DatasetConfig, options: PrepareOptions) -> str:
    """The command that prepares the dataset from files of the hub, as a part of a sentence for errors."""
    flags = []
    if not hub.hashes_are_known(config):
        flags.append("--unverified")
    verb = "download"
    if options.hub_folder:
        flags += ["--hub", shlex.quote(str(options.hub_folder))]
        verb = "prepare"
    return f"run: {config.command(verb, options.data_root, *flags)}"


def unverified_is_outdated(config: DatasetConfig, options: PrepareOptions, used: Sequence[Mapping[str, Any]]) -> str:
    """The reason to make unverified arrays again from the files that are there now.

    Args:
        config: the dataset.
        options: where its files are.
        used: the name and the sha256 of each file that the arrays were made from.

    Returns:
        The reason; empty if there is none.

    Raises:
        UsageError: there are several copies of an archive.
    """
    archives = local_archives(config, options.data_root)
    # Who accepts unverified files does not want a download only to compare them.
    without_unverified_download = replace(options, fetch=options.fetch and not options.unverified)
    try:
        source = find_source_files(config, without_unverified_download)
    except UsageError:
        if _has_copies(archives):
            raise
        return ""  # the files are gone, so the arrays cannot be made again
    if all(_is_known(file) for file in source.files):
        return "it is not verified, and files with the known hashes are there"
    before = {file["name"]: file["sha256"] for file in used}
    changed = [str(file.path) for file in source.files if sha256_of(file.path) != before.get(file.name)]
    if not changed:
        return ""
    have = "has" if len(changed) == 1 else "have"
    return f"{some(changed)} {have} changed"


def _is_known(file: SourceFile) -> bool:
    """Whether a file has its known hash. A file with a wrong size is not read."""
    if not file.sha256:
        return False
    has_known_size = file.size != 0 and not file.header  # accepted copies of a table have several sizes
    if has_known_size and size_of(file.path) != file.size:
        return False
    facts = verify_file(file, remedy="", unverified=True, advance=lambda size: None)
    return bool(facts["agrees"])


def local_archives(config: DatasetConfig, data_root: Path) -> list[SourceFile]:
    """The archives of a dataset that lie in the data root, or in the folder of the data root named after the dataset.

    If there are several copies of an archive, the first one with the known hash is chosen. If no copy has this hash,
    all copies are returned.
    """
    files: list[SourceFile] = []
    for archive in config.archives:
        copies = _copies(archive, [data_root, data_root / config.dataset])
        if len(copies) > 1:
            known = next(filter(_is_known, copies), None)
            if known:
                copies = [known]
        files += copies
    return files


def _copies(archive: SourceFile, folders: Sequence[Path]) -> list[SourceFile]:
    """The copies of an archive in some folders, under any of its names. Several links to one file count once."""
    copies: dict[Path, SourceFile] = {}
    for name in (archive.name, *archive.also):
        for folder in folders:
            path = folder / name
            if path.is_file():
                copies[path.resolve()] = replace(archive, path=path)
    return list(copies.values())

"""The files that a dataset is read from: the authors' archives, otherwise the hub's files, or a user's files."""

from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.source_files import SourceFile, SourceFiles
from fairbench.data.preparation import hub


def find_source_files(config: DatasetConfig, data_root: Path, hub_root: Path, fetch: bool) -> SourceFiles:
    """The local files of a dataset.

    Args:
        config: the dataset.
        data_root: folder of archives.
        hub_root: folder of the hub's files, as owner/name/path.
        fetch: without archives, download missing files of the hub.

    Raises:
        UsageError: some or all of them are missing.
    """
    if path := config.user_path:
        if not path.exists():
            raise UsageError(f"option path of {config.dataset}: there is no {path} (relative to {Path.cwd()})")
        return SourceFiles("own", (SourceFile(path.name, path),), "correct it")
    names = [archive.name for archive in config.archives]
    folder = data_root / config.dataset
    by_hand = f"get {' and '.join(names)} from {config.info.page} and put it into {data_root} or {folder}"
    remedy = f"{by_hand}, or run: {config.command('download', data_root)}"
    archives = local_archives(config, data_root)
    if len(archives) == len(names):
        return SourceFiles("archive", tuple(archives), remedy)
    absent = ", ".join(name for name in names if name not in {file.name for file in archives})
    if archives:
        raise UsageError(
            f"{config.dataset}: {archives[0].path} is there, but not {absent}; {remedy}; "
            f"or move {archives[0].name} away to read the hub's files"
        )
    if fetch:
        hub.download_missing(config, hub_root, by_hand)
    files, missing = hub.local_files(config, hub_root)
    if missing:
        here = f"no {absent} in {data_root}, no {', '.join(missing)} in {hub_root / config.info.repository}"
        raise UsageError(f"{config.dataset} is missing: {here}; {remedy}")
    delete = f"delete it and run: {config.command('download', data_root)}"
    return SourceFiles("hub", tuple(files), delete, config.info.revision)


def local_archives(config: DatasetConfig, data_root: Path) -> list[SourceFile]:
    """The archives of a dataset that lie in the data root or in its folder named after the dataset."""
    files = []
    for archive in config.archives:
        names = (archive.name, *archive.also)
        paths = (folder / name for name in names for folder in (data_root, data_root / config.dataset))
        if path := next((path for path in paths if path.is_file()), None):
            files.append(SourceFile(archive.name, path, archive.expected, archive.size, archive.split))
    return files

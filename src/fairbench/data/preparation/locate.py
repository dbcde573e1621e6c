"""The files that a dataset is read from: the authors' archives, otherwise the hub's files, or the user's own."""

from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.datasets.info import Archive
from fairbench.data.formats.source_files import SourceFile, SourceFiles
from fairbench.data.preparation import hub


def local_archives(config: DatasetConfig, data_root: Path) -> list[SourceFile]:
    """The archives of a dataset in the data root, or in its folder that is named after the dataset."""
    folders = data_root, data_root / config.dataset
    return [
        SourceFile(archive.name, path, archive.expected, archive.size, archive.split)
        for archive in config.archives
        if (path := _local_path(archive, folders))
    ]


def _local_path(archive: Archive, folders: tuple[Path, ...]) -> Path | None:
    paths = (folder / name for name in (archive.name, *archive.also) for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def find_source_files(config: DatasetConfig, data_root: Path, hub_root: Path) -> SourceFiles:
    """The local files of a dataset.

    Args:
        config: the dataset.
        data_root: folder of archives.
        hub_root: folder of the hub's files, as owner/name/path.

    Raises:
        UsageError: some or all of them are missing.
    """
    if "path" in config.options:
        return _user_files(config)
    remedy = f"{manual_download(config, data_root)}, or run: {config.command('download', data_root)}"
    archives = local_archives(config, data_root)
    if len(archives) == len(config.archives):
        return SourceFiles("archive", tuple(archives), remedy)
    local = {file.name for file in archives}
    absent = ", ".join(archive.name for archive in config.archives if archive.name not in local)
    if archives:
        raise UsageError(
            f"{config.dataset}: {archives[0].path} is there, but not {absent}; {remedy}; "
            f"or move {archives[0].name} away to read the hub's files"
        )
    files, missing = hub.local_files(config, hub_root)
    if not missing:
        delete = f"delete it and run: {config.command('download', data_root)}"
        return SourceFiles("hub", tuple(files), delete, config.info.revision)
    lacking = f"{hub_root / config.info.repository} lacks {', '.join(missing)}"
    raise UsageError(f"{config.dataset} is not there: no {absent} in {data_root}, {lacking}; {remedy}")


def user_path(config: DatasetConfig) -> Path:
    """The file or folder of a user's own data."""
    return Path(config.options["path"]).expanduser()


def _user_files(config: DatasetConfig) -> SourceFiles:
    path = user_path(config)
    if not path.exists():
        raise UsageError(f"option path of {config.dataset}: there is no {path} (seen from {Path.cwd()})")
    return SourceFiles("own", (SourceFile(path.name, path),), "correct it")


def manual_download(config: DatasetConfig, data_root: Path) -> str:
    """How to download the archives of a dataset by hand, for messages."""
    names = " and ".join(archive.name for archive in config.archives)
    return f"get {names} from {config.info.page} and put it into {data_root} or {data_root / config.dataset}"

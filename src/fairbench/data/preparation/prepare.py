"""From the files of a dataset to its prepared arrays: find, verify, read and write them, all or nothing."""

from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.terminal import say
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.raw import Images, Texts
from fairbench.data.formats.source_files import SourceFiles, size_of, verify_file
from fairbench.data.preparation.locate import PrepareOptions, find_source_files, outdated
from fairbench.data.preparation.progress_bar import progress_bar
from fairbench.data.preparation.staging import check_replaceable, exclusive
from fairbench.data.preparation.write_folder import NOT_VERIFIED, are_verified, write_folder
from fairbench.data.prepared import read_intact_folder


def prepare(config: DatasetConfig, options: PrepareOptions) -> None:
    """Prepare a dataset, unless it is already prepared.

    Arrays of unverified files are prepared again once verified files are there, or other ones.

    Raises:
        UsageError: files are missing, wrong or damaged, or the folder cannot be written.
    """
    target = config.folder(options.data_root).resolve()  # a link to another disk stays
    if _is_current(config, options, target):
        return
    with exclusive(target) as waited:
        if waited and _is_current(config, options, target):
            return  # the other process has prepared the dataset
        check_replaceable(target)
        source = find_source_files(config, options)
        if config.user_path is None:
            files = _verified_files(config, source, options.unverified)
            if not are_verified(files):
                say(f"{config.label}: not verified: {NOT_VERIFIED}")
            raw = _read(config, source)
        else:
            raw = _read(config, source)  # what is wrong with the folder is said before anything else
            files = _verified_files(config, source, accept_all=True)
        write_folder(config, source, files, raw, target)


def _is_current(config: DatasetConfig, options: PrepareOptions, target: Path) -> bool:
    """Whether intact arrays are prepared from files as good as those that are here now."""
    if options.again or not target.exists():
        return False
    reason = ""
    is_verified = True
    try:
        prepared = read_intact_folder(target, config.options)
    except UsageError as error:
        reason = str(error)
    else:
        is_verified = prepared.manifest["verified"]
        if not is_verified:
            reason = outdated(config, options, prepared.manifest["files"])
    if reason:
        say(f"{config.label}: prepared again, since {reason}")
        return False
    remedy = ""
    if not is_verified and config.user_path is None:
        remedy = f", but not verified; {config.by_hand(options.data_root)}"
    say(f"{config.label}: is already prepared in {target}{remedy}")
    return True


def _verified_files(config: DatasetConfig, source: SourceFiles, accept_all: bool) -> list[dict[str, Any]]:
    """The entry of every file in the manifest, see `verify_file`. Raises `UsageError` if a file is not accepted."""
    paths = ", ".join(str(file.path) for file in source.files)
    say(f"{config.label}: reading {paths}")
    size = sum(size_of(file.path) for file in source.files)
    with progress_bar("check", size, "bytes") as advance:
        return [verify_file(file, source.remedy, accept_all, advance) for file in source.files]


def _read(config: DatasetConfig, source: SourceFiles) -> Images | Texts:
    """The raw examples of a dataset. Raises `UsageError` with a remedy if the files are not those of the dataset."""
    read = config.info.reader()
    try:
        return read(source, config.options)
    except UsageError as error:
        if not source.remedy:
            raise
        raise UsageError(f"{error}; {source.remedy}") from error

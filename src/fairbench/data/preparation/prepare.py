"""From the files of a dataset to its prepared arrays: find, verify, read and write them, all or nothing.

The arrays of a user's own files are made by `own_files`.
"""

from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.common.terminal import say
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.raw import Images, Texts
from fairbench.data.formats.source_files import SourceFiles
from fairbench.data.preparation.locate import PrepareOptions, find_source_files, outdated
from fairbench.data.preparation.own_files import prepare_own
from fairbench.data.preparation.staging import exclusive, stays
from fairbench.data.preparation.verification import verification_of
from fairbench.data.preparation.write_folder import write_folder
from fairbench.data.prepared import read_intact_folder


def prepare(config: DatasetConfig, options: PrepareOptions) -> None:
    """Prepare a dataset, unless it is already prepared.

    Arrays of unverified files are prepared again once verified files are there, or other ones.

    Raises:
        UsageError: files are missing, wrong or damaged, or the folder cannot be written.
    """
    folder = config.folder(options.data_root)
    if config.user_path is not None:
        prepare_own(config, folder, options.again)
        return
    target = folder.resolve()  # a link to another disk stays
    if _is_current(config, options, target):
        return
    with exclusive(target) as waited:
        if waited and _is_current(config, options, target):
            return  # the other process has prepared the dataset
        source = find_source_files(config, options)
        verification = verification_of(config.label, source, options.unverified)
        if not verification.verified:
            say(f"{config.label}: not verified: {verification.in_words}")
        raw = _read(config, source)
        write_folder(config, source, verification, raw, target)


def _is_current(config: DatasetConfig, options: PrepareOptions, target: Path) -> bool:
    """Whether intact arrays are prepared from files as good as those that are here now."""
    if options.again or not target.exists():
        return False
    reason = ""
    remedy = ""
    try:
        prepared = read_intact_folder(target, config.options)
    except UsageError as error:
        reason = str(error)
    else:
        if not prepared.manifest["verified"]:
            reason = outdated(config, options, prepared.manifest["files"])
            remedy = f", but not verified; {config.by_hand(options.data_root)}"
    return stays(config.label, target, reason, remedy)


def _read(config: DatasetConfig, source: SourceFiles) -> Images | Texts:
    """The raw examples of a dataset. Raises `UsageError` with a remedy if the files are not those of the dataset."""
    read = config.info.reader()
    try:
        return read(source, config.options)
    except UsageError as error:
        raise UsageError(f"{error}; {source.remedy}") from error

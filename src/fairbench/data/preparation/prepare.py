"""From the files of a dataset to its prepared arrays: find, verify, read and write them, all or nothing.

The arrays of a user's own files are made by `own_files`.
"""

from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.common.terminal import say
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.raw import Images, Texts
from fairbench.data.formats.source_files import SourceFiles
from fairbench.data.preparation.locate import PrepareOptions, find_source_files, unverified_is_outdated
from fairbench.data.preparation.own_files import prepare_own
from fairbench.data.preparation.replacement import prepare_if_outdated
from fairbench.data.preparation.verification import verification_of
from fairbench.data.preparation.write_folder import write_folder
from fairbench.data.prepared import Prepared


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

    def outdated(prepared: Prepared) -> str:
        if prepared.manifest["verified"]:
            return ""
        return unverified_is_outdated(config, options, prepared.manifest["files"])

    def write(target: Path) -> None:
        source = find_source_files(config, options)
        verification = verification_of(config.label, source, options.unverified)
        if not verification.verified:
            say(f"{config.label}: not verified: {verification.in_words}")
        raw = _read(config, source)
        write_folder(config, source, verification, raw, target)

    remark = f", but not verified; {config.by_hand(options.data_root)}"
    prepare_if_outdated(config, folder, options.again, outdated, write, remark)


def _read(config: DatasetConfig, source: SourceFiles) -> Images | Texts:
    """The raw examples of a dataset. Raises `UsageError` with a remedy if the files are not those of the dataset."""
    read = config.info.reader()
    try:
        return read(source, config.options)
    except UsageError as error:
        raise UsageError(f"{error}; {source.remedy}") from error

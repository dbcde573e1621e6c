"""From a user's own file or folder to prepared arrays. No hash of it is known, so it is taken as it is."""

from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.source_files import SourceFile, SourceFiles, sha256_of
from fairbench.data.preparation.staging import exclusive, stays
from fairbench.data.preparation.verification import verification_of
from fairbench.data.preparation.write_folder import write_folder
from fairbench.data.prepared import read_intact_folder


def prepare_own(config: DatasetConfig, folder: Path, again: bool = False) -> None:
    """Prepare a user's file or folder, unless arrays of its present content are there.

    Args:
        config: a dataset of the user, whose option `path` names the file or folder.
        folder: the folder of the prepared arrays.
        again: whether to prepare a dataset that is already prepared.

    Raises:
        UsageError: the path does not exist, its files cannot be read, or the arrays cannot be written.
    """
    path = config.user_path
    assert path is not None
    target = folder.resolve()  # a link to another disk stays
    if not again and _is_current(config, path, target):
        return
    with exclusive(target) as waited:
        if waited and not again and _is_current(config, path, target):
            return  # the other process has prepared the dataset
        if not path.exists():
            raise UsageError(f"option path of {config.dataset}: there is no {path} (relative to {Path.cwd()})")
        file = SourceFile(path.name, path)
        source = SourceFiles(kind="own", files=(file,), remedy="")
        read = config.info.reader()
        raw = read(source, config.options)  # what is wrong with the folder is said before anything else
        verification = verification_of(config.label, source, accept_all=True)
        write_folder(config, source, verification, raw, target)


def _is_current(config: DatasetConfig, path: Path, target: Path) -> bool:
    """Whether intact arrays are prepared from the files as they are now, or from files that are gone."""
    if not target.exists():
        return False
    reason = ""
    try:
        prepared = read_intact_folder(target, config.options)
    except UsageError as error:
        reason = str(error)
    else:
        before = {file["name"]: file["sha256"] for file in prepared.manifest["files"]}
        if path.exists() and sha256_of(path) != before.get(path.name):
            reason = f"{path} has changed"
    return stays(config.label, target, reason)

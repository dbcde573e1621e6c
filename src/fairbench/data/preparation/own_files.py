"""From a user's own file or folder to prepared arrays. No hash of it is known, so it is taken as it is."""

from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.source_files import SourceFile, SourceFiles, sha256_of
from fairbench.data.preparation.replacement import prepare_if_outdated
from fairbench.data.preparation.verification import verification_of
from fairbench.data.preparation.write_folder import write_folder
from fairbench.data.prepared import Prepared


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

    def outdated(prepared: Prepared) -> str:
        """The arrays of files that are gone are not outdated."""
        before = {file["name"]: file["sha256"] for file in prepared.manifest["files"]}
        if path.exists() and sha256_of(path) != before.get(path.name):
            return f"{path} has changed"
        return ""

    def write(target: Path) -> None:
        if not path.exists():
            raise UsageError(f"option path of {config.dataset}: there is no {path} (relative to {Path.cwd()})")
        file = SourceFile(path.name, path)
        source = SourceFiles(kind="own", files=(file,), remedy="")
        read = config.info.reader()
        raw = read(source, config.options)  # what is wrong with the folder is said before anything else
        verification = verification_of(config.label, source, accept_all=True)
        write_folder(config, source, verification, raw, target)

    prepare_if_outdated(config, folder, again, outdated, write)

"""The data of a study before it begins: those of the user are prepared, all others are only checked."""

from collections.abc import Mapping
from pathlib import Path

from fairbench.cli.choices import StudyChoice
from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import check_prepared, configs_of
from fairbench.suites.schema import Suite


def prepare_data(choice: StudyChoice, suite: Suite) -> None:
    """Prepare the folders of --images and --text, and check all other data, which `fairbench data` prepares."""
    data_root = choice.location.data_root or Path("data")
    folders = _own_folders(choice.suite.folders)
    configs = configs_of(suite.data_tables)
    own = []
    if folders:
        own = [config for config in configs if config.user_path]
    others = [config for config in configs if config not in own]
    check_prepared(others, data_root)
    if not own:
        return

    from fairbench.data.preparation.own_files import prepare_own  # slow to import

    given = ", ".join(f"{option} {path}" for option, path in folders.items())
    for config in own:
        folder = config.folder(data_root)
        try:
            prepare_own(config, folder)
        except UsageError as error:
            raise UsageError(f"{given}: {error}") from error


def _own_folders(given: Mapping[str, str]) -> dict[str, Path]:
    """The folders of --images and --text, by their options. `given` are their paths by the kind of data."""
    folders = {}
    for kind, path in given.items():
        option = f"--{kind}"
        folder = Path(path)
        if not folder.exists():
            raise UsageError(f"{option} {folder}: there is no such folder or file in {Path.cwd()}")
        if folder.is_dir() and not any(folder.iterdir()):
            raise UsageError(f"{option} {folder}: the folder is empty; give one with files")
        folders[option] = folder
    return folders

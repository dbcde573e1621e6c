"""Which files a dataset is read from: the authors' archives, else the hub's files, else the user's own."""

from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import Request
from fairbench.data.datasets.info import Archive
from fairbench.data.formats.source_files import Found, SourceFile
from fairbench.data.preparation import hub


def archives(request: Request, data_root: Path) -> list[SourceFile]:
    """The archives of a dataset that lie in the data root, or in the folder there that is named after the dataset."""
    found = []
    for archive in request.archives:
        if path := _lies(archive, (data_root, data_root / request.dataset)):
            found.append(SourceFile(archive.name, path, archive.expected, archive.size, archive.split))
    return found


def _lies(archive: Archive, folders: tuple[Path, ...]) -> Path | None:
    paths = (folder / name for name in (archive.name, *archive.also) for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def locate(request: Request, data_root: Path, hub_root: Path) -> Found:
    """The files that are there.

    Args:
        request: the dataset.
        data_root: where archives lie.
        hub_root: where files of the hub lie, in folders owner/name.

    Raises:
        UsageError: some are missing, or all of them.
    """
    if "path" in request.options:
        return _own(request)
    remedy = _remedy(request, data_root)
    present = archives(request, data_root)
    if len(present) == len(request.archives):
        return Found("archive", tuple(present), remedy)
    absent = [archive.name for archive in request.archives if archive.name not in {file.name for file in present}]
    if present:
        raise UsageError(
            f"{request.dataset}: {present[0].path} is there, but not {', '.join(absent)}; {remedy}; "
            f"or move {present[0].name} away to read the hub's files"
        )
    files, missing = hub.present(request, hub_root)
    if not missing:
        mend = f"delete it and run: {request.command('download', data_root)}"
        return Found("hub", tuple(files), mend, request.facts.revision)
    lacking = f"{hub_root / request.facts.repository} lacks {', '.join(missing)}"
    raise UsageError(f"{request.dataset} is not there: no {', '.join(absent)} in {data_root}, {lacking}; {remedy}")


def own_path(request: Request) -> Path:
    """Where a user's own data lies."""
    return Path(request.options["path"]).expanduser()


def _own(request: Request) -> Found:
    path = own_path(request)
    if not path.exists():
        raise UsageError(f"option path of {request.dataset}: there is no {path} (seen from {Path.cwd()})")
    return Found("own", (SourceFile(path.name, path),), "mend it")


def by_hand(request: Request, data_root: Path) -> str:
    """Where to get the files of a dataset, and where to put them."""
    names = " and ".join(archive.name for archive in request.archives)
    return f"get {names} from {request.facts.page} and put it into {data_root} or {data_root / request.dataset}"


def _remedy(request: Request, data_root: Path) -> str:
    return f"{by_hand(request, data_root)}, or run: {request.command('download', data_root)}"

"""The replacement of a prepared folder: only if it is outdated, and by one process at a time."""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fairbench.common.errors import UsageError
from fairbench.common.terminal import say
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.prepared import Prepared, read_folder

OWN = re.compile(r"(train|val|test)(_labels)?\.npy|tokenizer\.json|\.*(manifest|hashed)\.json(\.\w+\.tmp)?")
"""The names of the files that a preparation writes into a prepared folder."""


def prepare_if_outdated(
    config: DatasetConfig,
    folder: Path,
    again: bool,
    outdated: Callable[[Prepared], str],
    write: Callable[[Path], None],
    remark: str = "",
) -> None:
    """Prepare a dataset, unless its folder is intact and not outdated, or another process prepares it now.

    Args:
        config: the dataset.
        folder: the folder of the prepared arrays.
        again: whether to prepare a dataset that is already prepared.
        outdated: why an intact folder is to be prepared again; empty if it stays.
        write: writes the folder, which is replaced if it exists.
        remark: the end of the message on a folder that stays although its files are not verified.

    Raises:
        UsageError: the folder cannot be written or replaced, or the disk is full.
    """
    target = folder.resolve()  # a link to another disk stays
    if not again and _stays(config, target, outdated, remark):
        return
    with _exclusive(target) as waited:
        if waited and not again and _stays(config, target, outdated, remark):
            return  # the other process has prepared the dataset
        write(target)


def _stays(config: DatasetConfig, target: Path, outdated: Callable[[Prepared], str], remark: str) -> bool:
    """Whether there is a folder that stays, which is said. The arguments are those of `prepare_if_outdated`."""
    if not target.exists():
        return False
    try:
        prepared = read_folder(target, config.options, check_content=True)
    except UsageError as error:
        reason = str(error)
    else:
        reason = outdated(prepared)
    if reason:
        say(f"{config.label}: prepared again, since {reason}")
        return False
    if prepared.manifest["verified"]:
        remark = ""
    say(f"{config.label}: is already prepared in {target}{remark}")
    return True


@contextmanager
def _exclusive(target: Path) -> Iterator[bool]:
    """Keep other processes from preparing the same folder. Yields whether another process was preparing it before.

    The lock ends with the process, even if the process is killed.

    Raises:
        UsageError: the folder cannot be written or replaced, or the disk is full at the end.
    """
    lock = FileLock(target.parent / f".{target.name}.lock")
    waited = False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        say(f"{target.name}: another process is preparing it; waiting for it to finish")
        lock.acquire()
        waited = True
    except OSError as error:
        raise UsageError(
            f"{target} cannot be prepared, since {target.parent} cannot be written ({error.strerror}); "
            "make it writable, or choose another --data-root"
        ) from error
    try:
        _check_replaceable(target)
        yield waited
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UsageError(
            f"the disk is full, {target} is not finished; free some space and run the same command again: "
            "finished files are kept"
        ) from error
    finally:
        lock.release()


def _check_replaceable(folder: Path) -> None:
    """Raise `UsageError` if a folder belongs to another user, or has files that no preparation writes."""
    if not folder.exists():
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise UsageError(
            f"{folder} is another user's; let its owner prepare it and make it readable, or choose another --data-root"
        )
    names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if not OWN.fullmatch(name)]
    if foreign:
        raise UsageError(
            f"{folder} has files that fairbench did not write ({', '.join(foreign)}) and that would be lost; "
            "move them away, and run the same command again"
        )

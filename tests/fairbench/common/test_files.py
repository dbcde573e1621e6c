"""Files that are written at once, on file systems of all kinds."""

import errno
import os
import stat

import pytest

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically


@pytest.mark.parametrize(("code", "works"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)])
def test_a_file_system_that_cannot_sync_folders_is_used_all_the_same(tmp_path, monkeypatch, code, works):
    fsync = os.fsync

    def of_files_alone(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(code, os.strerror(code))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", of_files_alone)
    file = tmp_path / "written"
    if works:
        write_atomically(file, "text")
        assert file.read_text() == "text"
        return
    with pytest.raises(UsageError, match="cannot write"):
        write_atomically(file, "text")

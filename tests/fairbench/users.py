"""Other users of the same machine."""

import json
import os

import pytest

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may take the place of other users")


def as_user(user, umask, function):
    """Call a function in a process of another user, which is then killed; returns what it returned."""
    read, written = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.umask(umask)
            os.write(written, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(written)
    with os.fdopen(read, "rb") as pipe:
        return json.loads(pipe.read())

"""Commands of git, each in a process of its own."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


class GitFailed(Exception):
    """A command of git failed; the message is its last line."""


def git(folder: Path, *words: str, variables: Mapping[str, str] | None = None) -> str:
    """What a command of git prints, without the line end. Raises `GitFailed` if it fails."""
    output = git_output(folder, *words, variables=variables)
    return output.decode(errors="surrogateescape").rstrip("\n")


def git_output(folder: Path, *words: str, variables: Mapping[str, str] | None = None) -> bytes:
    """The output of a command of git, byte for byte. Raises `GitFailed` if it fails."""
    environment = {**os.environ, **(variables or {})}
    try:
        done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True)
    except FileNotFoundError as error:
        raise GitFailed("git is not installed") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise GitFailed(lines[-1])
    return done.stdout

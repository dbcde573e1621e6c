"""A variant of a training program: what its trials have in place of an optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class VariantPlan:
    """One variant of a program, as a suite declares it.

    Attributes:
        args: words for the command, at its `{variant}`, or else at its end.
        env: environment variables; a value may have placeholders, as the command.
        revision: the git revision of the program; "@" for the working tree as it is when the study begins, empty for
            the files as they are when each trial starts.
        folder: the folder in which the program runs, of a revision a folder in its checkout; empty for the one in which
            fairbench was started.
        commit: the commit of the revision; empty until the study begins.
        searched: whether the command has `{lr}`, so that a learning rate is searched for each variant.
    """

    args: str = ""
    env: dict[str, str] = field(default_factory=dict)
    revision: str = ""
    folder: str = ""
    commit: str = ""
    searched: bool = False

    @property
    def words(self) -> Mapping[str, Any]:
        """The part of a trial's identity that is not the hashes of its code: what was given, and the commit."""
        given = {"args": self.args, "env": self.env, "folder": self.folder, "commit": self.commit}
        return {key: value for key, value in given.items() if value}

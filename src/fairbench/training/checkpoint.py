"""A trial's checkpoint, `DIR/checkpoints/<id>.pt`, from which the trial resumes in another process, bit for bit.

A checkpoint names its trial and the environment in which it was written. It has a digest of all its content, since
torch ignores checksums when it reads. A checkpoint that is damaged or from a different environment is not used.
"""

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import torch
from torch.serialization import default_restore_location

from fairbench.common.errors import Paused, UsageError
from fairbench.common.files import replacing
from fairbench.common.processes import handling
from fairbench.common.terminal import say
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.digests import content_digest
from fairbench.training.environment import environment

State = dict[str, Any]
"""Plain values and tensors, in dicts, lists and tuples."""


def write_state(file: IO[bytes], about: Mapping[str, Any], state: State) -> None:
    """Write a state and its digest. `about` identifies the trial and the environment."""
    content = {"about": about, "state": state}
    try:
        torch.save({**content, "digest": content_digest(content)}, file)
    except RuntimeError as error:  # after an OSError, torch fails to close its archive, which hides the OSError
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise error from None


def read_state(file: IO[bytes] | Path, about: Mapping[str, Any], device: torch.device) -> State:
    """Read a state.

    Args:
        file: what `write_state` wrote.
        about: the expected trial and environment.
        device: the device for tensors that were on a GPU.

    Raises:
        ValueError: the state is damaged, or from a different trial or environment; the message says which.
        Exception: anything that torch raises for a damaged file.
    """

    def to_device(storage: Any, location: str) -> Any:
        return storage if location == "cpu" else default_restore_location(storage, str(device))

    content = torch.load(file, map_location=to_device, weights_only=True)
    if content.pop("digest") != content_digest(content):
        raise ValueError("its digest does not match its content")
    written = content["about"]
    if written != about:
        changes = []
        for key in {**written, **about}:
            if written.get(key) != about.get(key):
                changes.append(f"{key} {written.get(key)!r} and not {about.get(key)!r}")
        raise ValueError(f"it was written in a different environment: {'; '.join(changes)}")
    return content["state"]  # type: ignore[no-any-return]


class Checkpoint:
    """The checkpoint of a running trial, which is written at intervals and before a pause. SIGTERM requests a pause.

    Args:
        spec: the trial.
        slot: the slot of the trial, with a folder for checkpoints.
        before_write: called before each checkpoint; an exception in it ends the trial.
    """

    def __init__(self, spec: TrialSpec, slot: DeviceSlot, before_write: Callable[[], None] = lambda: None) -> None:
        folder = Path(slot.checkpoints)
        self._path = folder / f"{spec.id}.pt"
        self._seconds = slot.checkpoint_every
        self._before_write = before_write
        self._about = {"trial": spec.id, **environment(slot.device)}
        self._device = torch.device(slot.device)
        self._written = time.monotonic()
        self._pause_requested = False
        self._unsaved = ""
        for leftover in folder.glob(f".{self._path.name}.*.tmp"):  # from a killed process
            leftover.unlink(missing_ok=True)

    def on_request(self) -> AbstractContextManager[None]:
        """Delay SIGTERM until the end of the step."""

        def request(*_: Any) -> None:
            self._pause_requested = True

        return handling([signal.SIGTERM], request)

    def read(self) -> State | None:
        """The saved state; None without a usable checkpoint. A message is printed if there is an unusable one."""
        if not self._path.exists():
            return None
        try:
            return read_state(self._path, self._about, self._device)
        except Exception as error:  # torch raises nearly anything for a damaged file
            say(f"the trial restarts; its checkpoint {self._path} cannot be used: {error}")
            return None

    def between_steps(self, state: Callable[[], State], incomplete: Callable[[], str]) -> None:
        """Write a checkpoint if the interval has passed, or if a pause was requested.

        Args:
            state: returns the state of the trial.
            incomplete: returns why the state is incomplete; empty if it is complete.

        Raises:
            Paused: a pause was requested.
        """
        if self._pause_requested or self._is_due():
            self._before_write()
            problem = incomplete()
            if problem:
                # An older checkpoint may be incomplete, too.
                self._path.unlink(missing_ok=True)
            else:
                problem = self._write(state())
            if problem and not self._unsaved:
                say(f"the trial continues without a new checkpoint: {problem}")
            self._unsaved = problem
            self._written = time.monotonic()
        if self._pause_requested:
            raise Paused(self._unsaved)

    def _is_due(self) -> bool:
        """Whether the interval has passed since the last checkpoint. An interval of 0 never passes."""
        if self._seconds <= 0:
            return False
        return time.monotonic() - self._written >= self._seconds

    def _write(self, state: State) -> str:
        """Replace the checkpoint. Returns the reason if this fails, so that the old one stays; otherwise empty."""
        try:
            with replacing(self._path) as file:
                write_state(file, self._about, state)
        except UsageError as error:
            return str(error)
        return ""

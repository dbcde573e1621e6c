"""Where a trial runs and where it keeps its checkpoint; no result depends on either."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where a trial runs; nothing that its numbers depend on, but for the kind of its device.

    Attributes:
        device: torch's name of the device, "cpu" or "cuda:1".
        data_root: where prepared data lie.
        alone: whether no other trial of the study is on that GPU or CPU core meanwhile.
    """

    device: str = "cpu"
    data_root: str = "data"
    alone: bool = True

    @property
    def kind(self) -> str:
        """The kind of the device."""
        return self.device.partition(":")[0]


@dataclass(frozen=True)
class Checkpointing:
    """Where running trials write their checkpoints, and how often.

    Attributes:
        folder: where, `DIR/checkpoints`; a trial's is `<id>.pt`.
        seconds: how long after the last one; 0 writes one only where a trial is paused.
    """

    folder: str
    seconds: float

"""Where a trial runs and where it keeps its checkpoint; no result depends on either."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where a trial runs; of this, only the kind of the device, which is "cpu" or "cuda:1", affects its numbers.

    Attributes:
        alone: whether the trial is the only one of the study on that GPU or CPU core.
        gpus: the numbers of the GPUs that a training program gets, as "0,1"; empty for those that it finds.
        cores: CPU cores of a trial.
    """

    device: str = "cpu"
    data_root: str = "data"
    alone: bool = True
    gpus: str = ""
    cores: int = 1

    @property
    def kind(self) -> str:
        return self.device.partition(":")[0]


@dataclass(frozen=True)
class Checkpointing:
    """The folder in which running trials write their checkpoints, and the seconds between two; 0: only for a pause."""

    folder: str
    seconds: float

"""Where a trial runs and where it keeps its checkpoint; no result depends on either."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceSlot:
    """Where a trial runs; of this, only the kind of the device, which is "cpu" or "cuda:1", affects its numbers.

    Attributes:
        alone: whether the trial is the only one of the study on that GPU or CPU core.
        gpus: the numbers of the GPUs that a training program gets, as "0,1"; empty for those that it finds.
        cores: CPU cores of a trial.
        checkpoints: the folder of the trial's checkpoint; empty for none.
        checkpoint_every: seconds between two checkpoints; 0 for none until the trial is paused.
    """

    device: str = "cpu"
    data_root: str = "data"
    alone: bool = True
    gpus: str = ""
    cores: int = 1
    checkpoints: str = ""
    checkpoint_every: float = 0.0

    @property
    def kind(self) -> str:
        return self.device.partition(":")[0]

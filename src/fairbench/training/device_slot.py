"""The slot of a trial: where it runs, and where it keeps its checkpoint. No result depends on either."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceSlot:
    """The slot of a trial. Only the kind of its device affects the numbers of the trial.

    Attributes:
        device: "cpu", "cuda", or a GPU with its number, such as "cuda:1".
        data_root: the folder of prepared data.
        alone: whether the trial is the only one of the study on its GPU or CPU core.
        alone_in_folder: whether a training program waits until no other trial runs in its folder.
        gpus: the numbers of the GPUs that a training program gets, such as "0,1"; empty for all that it finds.
        cores: the number of CPU cores of the trial.
        checkpoints: the folder of the trial's checkpoint; empty for none.
        revisions: the folder with the checked-out revisions of a program, each named by its commit; empty for none.
        checkpoint_every: seconds between two checkpoints; 0 for none until the trial is paused.
    """

    device: str = "cpu"
    data_root: str = "data"
    alone: bool = True
    alone_in_folder: bool = False
    gpus: str = ""
    cores: int = 1
    checkpoints: str = ""
    revisions: str = ""
    checkpoint_every: float = 0.0

    @property
    def kind(self) -> str:
        """The kind of the device, "cpu" or "cuda"."""
        return self.device.partition(":")[0]

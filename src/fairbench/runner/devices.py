"""How a study is run: the devices of a machine, the slots of trials on them, and other options of the driver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairbench.arenas.program import cores_and_gpus
from fairbench.common.errors import UsageError
from fairbench.common.processes import cores
from fairbench.study.history import History
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot

DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Files of the drivers of GPUs: without one of them, torch, which is slow to import, finds no GPU."""


@dataclass(frozen=True)
class RunOptions:
    """The options with which a study is run. No result depends on them.

    Attributes:
        slots: where trials run concurrently, one at each.
        trial_timeout: limit of a trial in seconds; 0 takes the suite's, or one derived from the preflight.
        checkpoint_every: seconds between the checkpoints of a trial, 0 for none until it is paused; None takes the
            suite's.
        timing: whether to time the optimizers' steps after all other trials.
        allow_mixed: whether trials may run in a different environment from those that have a record.
        fail_fast: whether the run ends at its first failed trial.
        seeds_of: the number of final seeds of some arms, by optimizer; the others get those of the suite.
        ray: address of a Ray cluster that runs the trials, "local" to start one on this machine; None for none.
    """

    slots: Sequence[DeviceSlot]
    trial_timeout: float = 0.0
    checkpoint_every: float | None = None
    timing: bool = False
    allow_mixed: bool = False
    fail_fast: bool = False
    seeds_of: Mapping[str, int] = field(default_factory=dict)
    ray: str | None = None

    @property
    def executor(self) -> str:
        """The name of the executor that runs the trials, see `executors/registry.py`."""
        return "processes" if self.ray is None else "ray"


def gpus_here() -> int:
    """The number of GPUs that torch finds. Counting them does not initialize CUDA: this process can still be forked."""
    if not any(Path(driver).exists() for driver in DRIVERS):
        return 0
    import torch

    return torch.cuda.device_count()


def device_kind(device: str, history: History) -> str:
    """The device, or what "auto" stands for: the device of the study so far, otherwise "cuda" if there is a GPU."""
    if device != "auto":
        return device  # the user has chosen
    if history.plans and history.study.device:
        return history.study.device
    return "cuda" if gpus_here() else "cpu"


def device_slots(device: str, workers: int | None, data_root: str, gpus: Sequence[int] = ()) -> list[DeviceSlot]:
    """The slots of concurrent trials on a device, which is "cpu", "cuda", or a GPU as "cuda:1".

    Without `workers` there is one slot on each core of the CPU, or one slot on a GPU. `gpus` are the numbers of the
    GPUs if `device` is "cuda" without a number.
    """
    kind, _, number = device.partition(":")
    is_known = kind in ("cpu", "cuda")
    if number:
        is_known = kind == "cuda" and number.isdecimal()
    if not is_known:
        raise UsageError(f"device must be 'auto', 'cpu', 'cuda' or a GPU as 'cuda:1'; got {device!r}")
    count = workers
    if count is None:
        count = cores() if kind == "cpu" else 1
    if count < 1:
        raise UsageError(f"--workers must be at least 1, got {count}")
    if kind == "cpu":
        return [DeviceSlot("cpu", data_root, alone=count <= cores())] * count
    numbers = gpus or [int(number or 0)]
    return [DeviceSlot(f"cuda:{gpu}", data_root, alone=count == 1) for gpu in numbers] * count


def options_of_study(suite: Suite, options: RunOptions) -> RunOptions:
    """The options with the slots that the trials of a suite need, and with its values where none are given."""
    every = options.checkpoint_every
    if every is None:
        every = suite.checkpoint_every
    return replace(
        options,
        slots=slots_of_trials(suite, options.slots, elsewhere=options.ray is not None),
        trial_timeout=options.trial_timeout or suite.trial_timeout,
        checkpoint_every=every,
    )


def slots_of_trials(suite: Suite, given: Sequence[DeviceSlot], elsewhere: bool = False) -> list[DeviceSlot]:
    """The slots of the trials of a suite, each with the cores and GPUs that its largest arena asks for.

    The given slots have one core each; on GPUs, there is one given slot for each trial at a time on each GPU. If
    `elsewhere` is True, a cluster has the GPUs, and the numbers of the given GPUs do not matter.
    """
    cores_asked = {}
    gpus_asked = {}
    for name, plan in suite.arenas.items():
        cores_asked[name], gpus_asked[name] = cores_and_gpus(suite.task(name), plan.model)
    cores_each = max(cores_asked.values())
    largest = max(gpus_asked, key=lambda name: gpus_asked[name])
    first = given[0]
    if first.kind == "cpu":
        if gpus_asked[largest]:
            cause = f"arenas.{largest}.gpus is {gpus_asked[largest]}"
            raise UsageError(f"{cause}, and the device is the CPU; give --device cuda")
        count = max(len(given) // cores_each, 1)
        return [replace(first, cores=cores_each)] * count
    gpus_each = max(gpus_asked[largest], 1)
    all_numbers = [slot.device.partition(":")[2] for slot in given]
    numbers = list(dict.fromkeys(all_numbers))
    if elsewhere:
        numbers = [str(number) for number in range(gpus_each)]
    if len(numbers) < gpus_each:
        cause = f"arenas.{largest}.gpus is {gpus_each}, and the study has {len(numbers)}"
        raise UsageError(f"{cause}: name more, such as --gpus all, or lower the number")
    slots = []
    # GPUs that are left over after the last full group are not used
    for start in range(0, len(numbers) - gpus_each + 1, gpus_each):
        group = numbers[start : start + gpus_each]
        slots.append(replace(first, device=f"cuda:{group[0]}", gpus=",".join(group), cores=cores_each))
    trials_on_each = list(given).count(first)
    return slots * trials_on_each

"""Where the trials of a command run: the slots that its options choose, and how the device was chosen."""

from collections.abc import Sequence

from fairbench.cli.arguments import gpu_numbers
from fairbench.cli.choices import LocationChoice
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural
from fairbench.runner.devices import device_kind, device_slots, gpus_here
from fairbench.study.target import Target
from fairbench.training.device_slot import DeviceSlot


def chosen_slots(options: LocationChoice, target: Target) -> tuple[list[DeviceSlot], str]:
    """Where the trials of a study run.

    Returns:
        A slot for each concurrent trial, and a line that says how the device was chosen, empty if it was given.

    Raises:
        UsageError: an option has no effect on the device, or a wrong value.
    """
    reason = _reason_for_cpu(options.device, target)
    kind = device_kind(options.device, target.history)
    gpus: Sequence[int] = ()
    if kind == "cpu":
        trials = options.workers
        for option, given in (("--gpus", options.gpus), ("--trials-per-gpu", options.trials_per_gpu)):
            if given is not None:
                raise UsageError(f"{option} {given} has no effect, {reason}; leave it out")
    else:
        trials = options.trials_per_gpu
        if options.workers is not None:
            raise UsageError(
                f"--workers {options.workers} has no effect on GPUs; give --trials-per-gpu, or --device cpu"
            )
        if trials is not None and trials < 1:
            raise UsageError(f"--trials-per-gpu must be at least 1, got {trials}")
        gpus = _chosen_gpus(options.gpus)
    slots = device_slots(kind, trials, str(options.data_root or "data"), gpus)
    return slots, _device_line(options, target, slots)


def _chosen_gpus(text: str | None) -> Sequence[int]:
    """The numbers of the GPUs that the option --gpus names; without a GPU "all" names the first, see `check_gpus`."""
    if text == "all":
        return range(max(gpus_here(), 1))
    return gpu_numbers(text)


def check_gpus(slots: Sequence[DeviceSlot]) -> None:
    """Raise `UsageError` if slots name a GPU that this machine does not have."""
    numbers = [int(slot.device.partition(":")[2]) for slot in slots if slot.kind == "cuda"]
    if not numbers:
        return
    count = gpus_here()
    if count == 0:
        raise UsageError("--device cuda: torch finds no CUDA GPU here; use --device cpu")
    if max(numbers) >= count:
        raise UsageError(f"--gpus {max(numbers)}: torch finds {plural(count, 'GPU')} here, numbered from 0")


def _reason_for_cpu(device: str, target: Target) -> str:
    """Why the trials run on the CPU, if they do."""
    if device != "auto":
        return f"--device is {device}"
    if target.history.plans:
        return f"{target.directory} has trials of the CPU"
    return "torch finds no GPU here"


def _device_line(options: LocationChoice, target: Target, slots: Sequence[DeviceSlot]) -> str:
    """How the device of these slots was chosen; empty if it was given."""
    if options.device != "auto":
        return ""
    count = gpus_here()
    facts = f"{plural(count, 'GPU')} here" if count else "no GPU here"
    if target.history.plans:
        facts = f"the device of this study; {facts}"
    if slots[0].kind == "cuda" and count > 1 and options.gpus is None:
        facts = f"{facts}; --gpus all uses all of them"
    devices = dict.fromkeys(slot.device for slot in slots)
    return f"device: {', '.join(devices)} ({facts})"

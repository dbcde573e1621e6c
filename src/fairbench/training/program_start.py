"""How the program of a trial is started: its command, its folder and its environment variables."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbench.arenas.program import FOLDER, ProgramOptions
from fairbench.common.errors import UsageError
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot


@dataclass(frozen=True)
class Start:
    """How the program of a trial is started.

    Attributes:
        words: its command.
        folder: the folder in which it runs.
        environment: its environment variables.
        is_revision: whether the folder is in the checkout of a git revision.
    """

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    is_revision: bool = False


def start_of(spec: TrialSpec, folder: Path, slot: DeviceSlot, options: ProgramOptions) -> Start:
    """The start of the program of a trial. `folder` is that of the trial."""
    variant = spec.optimizer.variant or {}
    trial_values = values(spec, folder)
    runs_in = folder_of(variant, slot)
    environment = _environment(folder, slot, options)
    remedy = f"optimizers.{spec.optimizer.name}.options"
    if variant:
        remedy = f"variants.{spec.optimizer.name}.values"
    texts = spec.optimizer.options
    if spec.optimizer.variant is not None:
        texts = {}  # a value of a variant is one word
    words, variables = options.command(variant).filled(trial_values, texts, remedy)
    if options.seed_env:
        environment[options.seed_env] = str(spec.seed)
    environment.update(variables)
    first, *others = words
    is_path = "/" in first
    if is_path and not (runs_in / first).exists() and Path(first).exists():
        first = str(Path(first).absolute())  # such as the Python of an environment, which no revision has
    return Start([first, *others], runs_in, environment, is_revision="commit" in variant)


def folder_of(variant: Mapping[str, Any], slot: DeviceSlot) -> Path:
    """The folder in which a variant runs: in the checkout of its revision, or a folder of the user."""
    folder = Path(variant.get("folder", ""))
    if "commit" not in variant:
        return folder
    checkout = Path(slot.revisions, variant["commit"])
    if not checkout.is_dir():
        raise UsageError(f"{checkout}, the checkout of a revision, is not there; let all nodes share its folder")
    return checkout / folder


def values(spec: TrialSpec, folder: Path) -> dict[str, Any]:
    """The values of the placeholders in the command; None for a placeholder that the trial does not set."""
    training = {key: value for key, value in vars(spec.training).items() if isinstance(value, int | float | str)}
    model = spec.arena.model
    return {
        **training,
        "batch_size": spec.arena.batch_size or None,
        "gpus": model["gpus"] or None,
        "size": model["size"] or None,
        "cores": model["cores"],
        **spec.optimizer.options,
        "optimizer": spec.optimizer.name,
        "seed": spec.seed,
        "stage": spec.stage,
        "out": folder,
    }


def _environment(folder: Path, slot: DeviceSlot, options: ProgramOptions) -> dict[str, str]:
    """The environment variables of a program: the GPUs of its trial, and a PATH with a Python.

    The Python is fairbench's, unless another environment is activated.
    """
    variables = {**os.environ, FOLDER: str(folder)}
    # The rank is that of this driver on a cluster; launchers number their own processes.
    variables.pop("RANK", None)
    if slot.gpus:
        variables["CUDA_VISIBLE_DEVICES"] = _visible_gpus(slot.gpus, variables.get("CUDA_VISIBLE_DEVICES", ""))
    if options.cores > 1:
        # The number of threads is that of this process; launchers and libraries choose one for several cores.
        variables.pop("OMP_NUM_THREADS", None)
    if "VIRTUAL_ENV" not in variables and "CONDA_PREFIX" not in variables:
        own_python = str(Path(sys.executable).parent)
        variables["PATH"] = own_python + os.pathsep + variables.get("PATH", os.defpath)
    return variables


def _visible_gpus(numbers: str, visible: str) -> str:
    """The names of some GPUs for CUDA.

    Args:
        numbers: the numbers of the GPUs among those that this process can use, such as "0,1".
        visible: the names of the GPUs that this process can use; empty for all of the machine.
    """
    if not visible:
        return numbers
    names = dict(enumerate(visible.split(",")))
    return ",".join(names.get(int(number), number) for number in numbers.split(","))

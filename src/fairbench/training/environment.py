"""The environment of a trial: versions, device, git revision.

torch is imported only where a fact needs it: a study of programs starts sooner without it.
"""

import platform
from functools import cache
from importlib import metadata
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.common.formatting import some
from fairbench.common.git_revision import CHANGES, revision_of
from fairbench.common.installation import DISTRIBUTION, PACKAGES
from fairbench.study.environments import CHANGED_FILES

DISTRIBUTIONS = ("torch", "pytorch-optimizer", "scikit-learn", "numpy")
CPU_INFO = Path("/proc/cpuinfo")
INSTRUCTION_SET = "instruction set"
"""The fact of an environment of trials that fairbench trains on a CPU."""


_REVISION = revision_of(Path(__file__), PACKAGES)
LOADED_REVISION = str(_REVISION)
"""The revision of the loaded code: the checkout may change while trials are forked.

It is "none" if no repository tracks the code, as in a virtual environment. The version of the package tells more then.
"""
LOADED_CHANGES = some(_REVISION.changed)
"""As `LOADED_REVISION`, the changes of the loaded code."""


@cache
def processor() -> str:
    """The name of the CPU."""
    return _model_name() or platform.processor() or platform.machine()


def instruction_set() -> str:
    """The instruction set that torch uses on a CPU, on which the order of sums depends."""
    import torch

    return torch.backends.cpu.get_cpu_capability()


def _model_name() -> str:
    """The model of the CPU on Linux; empty on other systems."""
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""


def environment(device: str) -> dict[str, str]:
    """Versions, device and git revision, as records and `config.json` state them."""
    facts = environment_of_program(device)
    if device.startswith("cuda"):
        return facts
    return {**facts, INSTRUCTION_SET: instruction_set()}


@cache
def environment_of_program(device: str) -> dict[str, str]:
    """As `environment`, for a program: on a CPU, its libraries may use other instructions than torch does here."""
    device_facts = gpu(device) if device.startswith("cuda") else {"device": processor()}
    changes = {}
    if LOADED_CHANGES and LOADED_REVISION.endswith(CHANGES):
        changes[CHANGED_FILES] = LOADED_CHANGES
    return {
        "python": platform.python_version(),
        "psilogic": version(DISTRIBUTION),
        **{name: version(name) for name in DISTRIBUTIONS},
        "platform": platform.platform(),
        **device_facts,
        "git": LOADED_REVISION,
        **changes,
    }


def version(distribution: str) -> str:
    """The version of a distribution; "none" if it is not installed, or lacks metadata, as in some containers."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "none"


def gpu(device: str) -> dict[str, str]:
    """The name of a GPU, the versions of its libraries, and the operations in which torch may round to TF32."""
    import torch

    products = "yes" if torch.backends.cuda.matmul.allow_tf32 else "no"
    convolutions = "yes" if torch.backends.cudnn.allow_tf32 else "no"
    return {
        "device": torch.cuda.get_device_name(device),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
        "tf32": f"products {products}, convolutions {convolutions}",
    }


def check_device(device: str) -> None:
    """Raise UsageError if torch does not find the device on this machine."""
    if not device.startswith("cuda"):
        return

    import torch

    if not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no CUDA GPU here; use --device cpu")
    index = torch.device(device).index or 0
    count = torch.cuda.device_count()
    if index >= count:
        raise UsageError(f"--gpus {index}: torch finds {count} GPUs here, numbered from 0")

"""What launches of Triton's kernels have in common."""

import warnings
from functools import cache

import torch

from psilogic.backends.triton.update_kernels import trial_kernel

OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}


@cache
def can_launch(device: torch.device) -> bool:
    """Whether a kernel runs on a device: before the first launch Triton compiles, with the machine's C compiler.

    Tried once, with a warning that has the reason if it does not.
    """
    out = torch.zeros(1, dtype=torch.int32, device=device)
    try:
        with torch.cuda.device_of(out):
            trial_kernel[(1,)](out, **OPTIONS)
    except Exception as error:  # no compiler, no Python.h, too old a GPU: each raises a different type
        reason = str(error).strip().partition("\n")[0]
        warnings.warn(
            f"Triton cannot launch kernels on {device}, so PsiLogic uses torch's foreach operations there, which are "
            f"slower; Triton needs a C compiler and Python's headers ({type(error).__name__}: {reason})",
            stacklevel=2,
        )
        return False
    return True

"""Whether Triton can launch kernels: before the first launch it compiles, with the machine's C compiler."""

# Triton has no annotations, and its kernels are no Python functions that could have any.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False

import warnings
from functools import cache

import torch
import triton
import triton.language as tl

from psilogic.updates.triton.update import OPTIONS


@triton.jit
def trial_kernel(out):
    """A kernel that only stores a number."""
    tl.store(out, 1)


@cache
def can_launch(device: torch.device) -> bool:
    """Whether a kernel runs on a device; tried once, with a warning that has the reason if it does not."""
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

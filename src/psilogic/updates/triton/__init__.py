"""The update as one Triton kernel for all tensors of a device and dtype; one or two more for their sums.

Needs triton, which psilogic imports only for it. It has run on one GPU (H200) and been compiled for three generations.
"""

import warnings
from functools import cache

import torch
from torch import Tensor

from psilogic.gradients import Sums, measure
from psilogic.updates.triton import update
from psilogic.updates.triton.update import OPTIONS, UnitSums
from psilogic.updates.triton.update_kernels import trial_kernel
from psilogic.updates.types import Execution, Work


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


def begin(work: Work) -> Sums | UnitSums:
    """The sums over units, in one launch; by torch's operations if other ranks update tensors or parts of them."""
    bucket, (params, grads, *_) = work.bucket, work.tensors
    if work.owned is not bucket or bucket.ranks is not None:
        return measure(bucket)
    by_agc = params if bucket.group["agc_clip"] > 0 else None
    what = grads, by_agc, bucket.units, bucket.group["grad_centralize"], bucket.cache.tables
    return update.unit_sums(*what) if work.decided else Sums(None, *update.unit_statistics(*what))


def finish(work: Work, found_inf: Tensor | None) -> None:
    """Update parameters and moments in one launch."""
    bucket = work.owned
    there = None if found_inf is None else found_inf.to(bucket.device, non_blocking=True)
    update.update_(work.tensors, work.step, work.mean, work.scale, bucket.units, bucket.cache.tables, there)


execution = Execution("triton", update.supports, begin, finish, skips=True, at_once=True)

"""What launches of Triton's kernels have in common.

Triton binds and examines every argument of a call, which takes the host several times as long as the launch. What it
compiles depends on little: the device, the compile-time arguments, the dtypes of the pointers, and which of them are
None. It is asked once for each combination, and later launches go straight to what it has compiled.
"""

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from psilogic.backends.triton.update_kernels import trial_kernel

DTYPES = {torch.float64: tl.float64, torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}
COMPILED: dict[tuple[Any, ...], Any] = {}
"""What Triton has compiled of each variant of a kernel, by device and dtypes of pointers."""


class Variant:
    """A kernel with its compile-time arguments; it takes pointers first, and numbers after them."""

    def __init__(self, kernel: Any, constants: Sequence[Any]) -> None:
        self.kernel = kernel
        self.constants = constants

    def launch(self, grid: tuple[int, int, int], pointers: Sequence[Tensor | None], numbers: Sequence[Any]) -> None:
        """Launch it on the device of the first pointer; nothing if the grid has no programs."""
        if grid[0] == 0:
            return
        first = pointers[0]
        assert first is not None
        dtypes = [None if pointer is None else pointer.dtype for pointer in pointers]
        key = (self, first.device, *dtypes)
        compiled = COMPILED.get(key)
        with torch.cuda.device_of(first):
            if compiled is not None:
                compiled[grid](*pointers, *numbers, *self.constants)
                return
            compiled = self.kernel[grid](*pointers, *numbers, *self.constants, **OPTIONS)
        if compiled is not None:  # the interpreter compiles nothing
            COMPILED[key] = compiled


def compiled_for(dtype: torch.dtype, wide: bool = False) -> tuple[Any, Any, int]:
    """Compile-time arguments: the tensors' dtype, that of the arithmetic, and the bytes of an element."""
    accumulator = tl.float64 if wide or dtype == torch.float64 else tl.float32
    return DTYPES[dtype], accumulator, dtype.itemsize


TRIAL = Variant(trial_kernel, ())


@cache
def can_launch(device: torch.device) -> bool:
    """Whether a kernel runs on a device: before the first launch Triton compiles, with the machine's C compiler.

    Tried once, with a warning that has the reason if it does not. The second launch takes the direct way.
    """
    out = torch.zeros(1, dtype=torch.int32, device=device)
    try:
        TRIAL.launch((1, 1, 1), [out], [])
        TRIAL.launch((1, 1, 1), [out], [])
    except Exception as error:  # no compiler, no Python.h, too old a GPU: each raises a different type
        reason = str(error).strip().partition("\n")[0]
        warnings.warn(
            f"Triton cannot launch kernels on {device}, so PsiLogic uses torch's foreach operations there, which are "
            f"slower; Triton needs a C compiler and Python's headers ({type(error).__name__}: {reason})",
            stacklevel=2,
        )
        return False
    return True
